"""Which pods are booked, computed a second time from DESIGN's words: a fault of the product's own shows here.

Per user, live pods in the order (already covered by this booking, original creation instant, name, uid) are
covered where their GPUs still fit into count and model. A terminating pod uses no cover. A booking
covers pods that ask for devices of its resource alone. Shares: see ``_Use``.

A pod that runs already when its booking begins is covered where others keep a place: that is asked of the
product's own predicate. Namespaces are not watched: who is spared in one may be called unbooked here.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime

from cluster import names
from cluster.cache import ClusterCache
from cluster.decide.adoption import Pair, is_new
from cluster.fake.clock import FakeClock
from cluster.kube.resources import BOOKINGS, NODES, PODS
from cluster.objects.bookings import Booking
from cluster.objects.device_selector import device_selector_of
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod, first_created, is_live, is_terminal
from tests.laws.devices import advertised_devices, held, needed
from tests.laws.groups import NOBODY
from tests.laws.shares import is_sharing, largest_part, part_of
from tests.laws.state import State

Uid = str


def cover(state: State, now: datetime, users: AbstractSet[str] | None = None) -> Mapping[Uid, Booking]:
    """Uid of each booked pod -> the booking that covers it at this instant.

    Args:
        state: of the cluster.
        now: the instant.
        users: whose pods are asked for; None: everybody's.
    """
    served = _served(state, now, users, frozenset())
    if not any(is_new(state.pods[uid], booking) for uid, booking in served.items()):
        return served
    return _served(state, now, users, _barred(state, now)) if _places_matter(state, now) else served


def _places_matter(state: State, now: datetime) -> bool:
    return any(
        b.spec.end > now and b.spec.count > 1 and b.spec.topology == "single-node"
        for b in state.bookings.values()
    ) or any(node.metadata.annotation(names.BLOCKS) for node in state.nodes.values())


def _barred(state: State, now: datetime) -> frozenset[Pair]:
    cache = ClusterCache(FakeClock(now))
    cache.of(NODES).replace(list(state.nodes.values()))
    cache.of(PODS).replace([pod for pod in state.pods.values() if not is_terminal(pod)], "1")
    cache.of(BOOKINGS).replace(list(state.bookings.values()))
    return cache.barred(now)


def _served(
    state: State, now: datetime, users: AbstractSet[str] | None, barred: AbstractSet[Pair]
) -> Mapping[Uid, Booking]:
    running = [b for b in state.bookings.values() if b.spec.start <= now < b.spec.end]
    booking_users = {b.spec.user for b in running if users is None or b.spec.user in users}
    running = [b for b in running if b.spec.user in booking_users]
    theirs = (state.by_user.get(user, NOBODY).pods.values() for user in sorted(booking_users))
    pods = [pod for group in theirs for pod in group if is_live(pod)]
    served: dict[Uid, Booking] = {}
    for booking in sorted(running, key=lambda b: (b.spec.start, b.name)):
        use = _Use(booking, state)
        for pod in _in_order(pods, booking):
            if (pod.metadata.uid, booking.name) in barred:
                continue
            if pod.metadata.uid not in served and _fits(pod, booking, state) and use.takes(pod):
                served[pod.metadata.uid] = booking
    return served


class _Use:
    """What the pods of a booking use of it.

    Whole GPUs that are booked serve their owner's shares, too: each GPU on which one runs counts once, and
    those that wait are expected where they fit with the others, the fullest GPU first. Booked shares serve
    one share each that is no larger, in memory and compute.
    """

    def __init__(self, booking: Booking, state: State) -> None:
        self._booking, self._state = booking, state
        self._left = booking.spec.count
        self._rooms: dict[str, int] = {}
        """GPU, or the number of one that is yet to be chosen -> MiB."""
        self._awaited: set[str] = set()

    def takes(self, pod: Pod) -> bool:
        memory, count = self._booking.spec.memory, _devices_of(pod, self._booking)
        if not is_sharing(pod):
            return memory is None and count > 0 and self._spend(count)
        slots = sum(needed(pod).values())
        if memory is not None:
            return self._is_small(pod, memory) and self._spend(slots)
        return self._stays(pod) if held(pod, self._state) else self._comes(pod, slots)

    def _spend(self, count: int) -> bool:
        if count > self._left:
            return False
        self._left -= count
        return True

    def _devices(self) -> dict[str, Device]:
        model = self._booking.spec.model
        every = (d for node in self._state.nodes.values() for d in advertised_devices(node))
        return {d.uuid: d for d in every if d.model == model and d.share is not None}

    def _least(self) -> Device | None:
        found = self._devices().values()
        return min(found, key=lambda d: d.share.memory if d.share else 0, default=None)

    def _is_small(self, pod: Pod, memory: int) -> bool:
        theirs, known = held(pod, self._state), self._devices()
        on = [known[uuid] for uuid in theirs if uuid in known] if theirs else [self._least()]
        for device in on:
            if device is None or device.share is None:
                return False
            wanted, cores = largest_part(pod, device)
            if wanted > memory or cores * device.share.memory > 100 * memory:
                return False
        return bool(on)

    def _stays(self, pod: Pod) -> bool:
        known, theirs = self._devices(), held(pod, self._state)
        for uuid in theirs & self._awaited:
            if uuid in known and part_of(pod, known[uuid]) > self._rooms[uuid]:
                return False
        if not self._spend(len(theirs - self._rooms.keys())):
            return False
        for uuid in theirs:
            device = known.get(uuid)
            offered = device.share.memory if device and device.share else 0
            part = part_of(pod, device) if device else 0
            self._rooms[uuid] = max(0, self._rooms.get(uuid, offered) - part)
        return True

    def _comes(self, pod: Pod, slots: int) -> bool:
        device = self._least()
        if device is None or device.share is None:
            return False
        wanted = largest_part(pod, device)[0]
        enough = sorted((room, uuid) for uuid, room in self._rooms.items() if room >= wanted)[:slots]
        if len(enough) < slots:
            if wanted > device.share.memory or not self._spend(slots):
                return False
            enough = [(device.share.memory, f"{pod.metadata.uid}-{number}") for number in range(slots)]
        for room, uuid in enough:
            self._rooms[uuid] = room - wanted
            self._awaited.add(uuid)
        return True


def _in_order(pods: Iterable[Pod], booking: Booking) -> list[Pod]:
    theirs = (p for p in pods if p.metadata.annotation(names.USER) == booking.spec.user)

    def place(pod: Pod) -> tuple[bool, datetime, str, Uid]:
        meta = pod.metadata
        return (meta.annotation(names.BOOKING) != booking.name, first_created(pod), meta.name, meta.uid)

    return sorted(theirs, key=place)


def _devices_of(pod: Pod, booking: Booking) -> int:
    """How many devices of the booking's resource the pod needs; 0 for one that asks for others, too."""
    wanted, resource = needed(pod), booking.spec.resource
    return wanted[resource] if set(wanted) == {resource} else 0


def _fits(pod: Pod, booking: Booking, state: State) -> bool:
    if booking.spec.namespace not in (None, pod.metadata.namespace):
        return False
    has = held(pod, state)
    if not has:
        selector, model = device_selector_of(pod), booking.spec.model
        return model not in selector.not_models and (not selector.models or model in selector.models)
    node = state.nodes.get(pod.spec.node_name or "")
    models = {d.uuid: d.model for d in (advertised_devices(node) if node else ())}
    return {models.get(uuid) for uuid in has} == {booking.spec.model}
