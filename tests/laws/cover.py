"""Which pods are booked, computed a second time from DESIGN's words: a fault of the product's own shows here.

Per user, live pods in the order (already covered by this booking, original creation instant, name, uid) are
covered where their GPUs still fit into count and model. A terminating pod uses no cover. A booking
covers pods that ask for devices of its resource alone.

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
from cluster.objects.pods import Pod, first_created, is_live, is_terminal
from tests.laws.devices import advertised_devices, held, needed
from tests.laws.groups import NOBODY
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
        left = booking.spec.count
        for pod in _in_order(pods, booking):
            gpus = _devices_of(pod, booking)
            if (pod.metadata.uid, booking.name) in barred:
                continue
            if pod.metadata.uid not in served and gpus and gpus <= left and _fits(pod, booking, state):
                served[pod.metadata.uid] = booking
                left -= gpus
    return served


def _in_order(pods: Iterable[Pod], booking: Booking) -> list[Pod]:
    theirs = (p for p in pods if p.metadata.annotation(names.USER) == booking.spec.user)

    def place(pod: Pod) -> tuple[bool, datetime, str, Uid]:
        meta = pod.metadata
        return (meta.annotation(names.BOOKING) != booking.name, first_created(pod), meta.name, meta.uid)

    return sorted(theirs, key=place)


def _devices_of(pod: Pod, booking: Booking) -> int:
    """How many devices of the booking's resource the pod needs; 0 for one that asks for others as well."""
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
