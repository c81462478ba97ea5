"""L10: fair shares move nothing by their own hand.

Judged when devices are kept for a turn, by shares that ``standings`` computes a second time (a test whose
policy has groups, quotas, limits or weights shows it to the watcher). Turns beyond a share, and gangs, are
judged in ``l10_turns``. A take within shares lowers the sum of deficits by exactly what it gives. What is
free goes to nobody who holds more by weight, or has a quota, before another who does not and for whose pod it
would do: so nobody starves while others get more; and nobody gets more than a limit. No owner's pods are
taken more than three times a day, and nothing is taken back while nobody else has come, gone or changed. In a
quiet cluster no free device is refused to a pod that waits in line. That no booked pod is taken is judged
with L2 and L3.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, cached_property
from typing import Final, NamedTuple

from cluster import names
from cluster.decide.protection import never_evicted_reason
from cluster.objects.device_selector import DeviceSelector, device_selector_of
from cluster.objects.gangs import gang_of
from cluster.objects.hold import Hold
from cluster.objects.inventory import Device, resource_of
from cluster.objects.kept_once import ReadOnce
from cluster.objects.pods import Pod, is_live, is_terminating
from cluster.objects.scheduling_gates import is_queued, other_gates
from tests.laws.changes import Change
from tests.laws.cover import cover
from tests.laws.departures import departure, is_ordered
from tests.laws.devices import advertised_devices, floor_of, held, hold_on, holds, needed, plot_of
from tests.laws.places import Places, for_nothing, is_alive
from tests.laws.standings import Pool, Standings, Tenant
from tests.laws.state import State

LAW: Final = "L10"
MOST_A_DAY: Final = 3
DAY: Final = timedelta(hours=24)
TOGETHER: Final = timedelta(minutes=15)
"""Within so long all pods of a gang leave, which counts as once."""
GIVEN_FOR: Final = timedelta(seconds=15)
"""Seconds after the controller's last sign of life within which turns are given."""
_EQUAL: Final = Standings()
GANG_SIZE: Final = f"{names.DOMAIN}/gang-size"


def is_of_a_gang(pod: Pod) -> bool:
    """Whether a pod starts and leaves together with others: those are not judged one by one."""
    return pod.metadata.annotation(GANG_SIZE) is not None


def is_owed(pod: Pod) -> bool:
    """Whether devices are kept for a pod that is above its owner's share, for a turn that was waited for."""
    try:
        found = json.loads(pod.metadata.annotation(names.HOLD) or "{}")
    except ValueError:
        return False
    return isinstance(found, dict) and bool(found.get("turn"))


def pool_of(
    model: str,
    state: State,
    now: datetime,
    standings: Standings,
    *,
    without: frozenset[str] = frozenset(),
) -> Pool:
    """The pool of a model at an instant. Args: without: uids of pods that count as if they had no hold."""
    pool, booked, tenant_of = Pool(model, standings), cover(state, now), standings.tenant_of
    standing = {uid: hold for uid, hold in holds(state).items() if uid not in without}
    leaving = {uid for hold in standing.values() for uid in hold.victims}
    kept = {uuid: uid for uid, hold in standing.items() for uuid in hold.devices}
    for name, node in state.nodes.items():
        if node.spec.unschedulable or not is_alive(name, state, now):
            continue
        for uuid, who in _evictable(model, state, name):
            by = kept.get(uuid)
            if by in booked or any(pod.metadata.uid in booked for pod in who):
                continue
            pool.capacity += 1
            if by is not None:
                pool.holds[tenant_of(state.pods[by])] += 1
            for pod in who:
                if not is_terminating(pod) and pod.metadata.uid not in leaving:
                    pool.holds[tenant_of(pod)] += 1
    pool.wants = Counter(pool.holds)
    could = cache(lambda request: _could_have(request, model, state))
    for pod in waiting(state, booked, without):
        if (request := _request(pod)) and could(request) and is_whole(pod, state):
            pool.wants[tenant_of(pod)] += request.gpus
    return pool


def _evictable(model: str, state: State, node: str) -> Iterable[tuple[str, tuple[Pod, ...]]]:
    """Devices of a node with their holders, but for those of which somebody is never evicted."""
    devices, holders = _of_model(model, state, node), plot_of(node, state).holders

    def found() -> list[tuple[str, tuple[Pod, ...]]]:
        who = ((d.uuid, tuple(state.pods[uid] for uid in holders.get(d.uuid, ()))) for d in devices)
        return [one for one in who if not any(map(_never_leaves, one[1]))]

    there, group = state.nodes[node], state.by_node.get(node)
    texts = [there.metadata.annotation(key) for key in (names.INVENTORY, names.DRIFT)]
    return group.reckoned(("evictable", model, *texts), found) if group else found()


def _never_leaves(pod: Pod) -> bool:
    return never_evicted_reason(pod, namespaces={}, home=names.NAMESPACE) is not None


def is_whole(pod: Pod, state: State) -> bool:
    """Whether all pods of its gang exist; of a single pod always."""
    gang = gang_of(pod)
    return gang is None or sum(gang_of(o) == gang for o in state.pods.values() if is_live(o)) >= gang.size


def waiting(
    state: State, booked: Mapping[str, object], without: frozenset[str] = frozenset()
) -> Iterator[Pod]:
    """Pods without a booking that wait for a turn; those of ``without`` as if they had no hold."""
    for uid, pod in state.by_node[""].pods.items() if "" in state.by_node else ():
        has_hold = uid not in without and pod.metadata.annotation(names.HOLD)
        is_apart = uid in booked or other_gates(pod) or has_hold
        if is_live(pod) and not is_apart and _request(pod):
            yield pod


class _Request(NamedTuple):
    """What a pod asks for that may wait for a turn: whole devices of one resource."""

    resource: str
    gpus: int
    selector: DeviceSelector

    def takes(self, device: Device) -> bool:
        """Whether a device is one of these."""
        return resource_of(device) == self.resource and self.selector.takes(device)


def _read_request(pod: Pod) -> _Request | None:
    need = needed(pod)
    if len(need) != 1 or names.SHARED_RESOURCE in need:
        return None
    ((resource, gpus),) = need.items()
    return _Request(resource, gpus, device_selector_of(pod))


_request: Final = ReadOnce(_read_request)


def _of_model(model: str, state: State, node: str) -> list[Device]:
    return [d for d in advertised_devices(state.nodes[node]) if d.is_healthy and d.model == model]


def _takes(pod: Pod, device: Device) -> bool:
    request = _request(pod)
    return request is not None and request.takes(device)


def _could_have(request: _Request, model: str, state: State) -> bool:
    """Whether a node has enough devices for a pod, whoever holds them."""
    nodes = (_of_model(model, state, name) for name in state.nodes)
    return any(sum(map(request.takes, devices)) >= request.gpus for devices in nodes)


# --- when devices are kept for a turn ---------------------------------------------------------------------
def unfair_turn(change: Change, state: State, now: datetime, standings: Standings) -> Iterator[str]:
    """A turn that takes what it must not, or that is another's."""
    before, after = change.pods or (None, None)
    hold = hold_on(after) if after else None
    if after is None or hold is None or hold.need != "share" or (before is not None and hold_on(before)):
        return
    if is_owed(after) or is_of_a_gang(after):
        return
    known = state.nodes.get(hold.node)
    devices = advertised_devices(known) if known else ()
    model = next((device.model for device in devices if device.uuid in hold.devices), None)
    if model is not None:
        turn = _Turn(after, hold, model, state, now, standings)
        yield from turn.of_taking() if turn.victims else turn.of_order()
        yield from turn.of_limit()


@dataclass(frozen=True)
class _Turn:
    """Devices that are kept for a pod without a booking, in the state in which that was decided."""

    pod: Pod
    hold: Hold
    model: str
    state: State
    now: datetime
    standings: Standings

    @cached_property
    def victims(self) -> list[Pod]:
        found = (self.state.pods.get(uid) for uid in self.hold.victims)
        return [pod for pod in found if pod is not None and is_live(pod)]

    @cached_property
    def pool(self) -> Pool:
        return pool_of(self.model, self.state, self.now, self.standings)

    @property
    def tenant(self) -> Tenant:
        return self.standings.tenant_of(self.pod)

    def of_taking(self) -> Iterator[str]:
        """The sum of deficits falls by less than is taken."""
        given = len(self.hold.devices)
        moved = Counter({self.tenant: given})
        for victim in self.victims:
            moved[self.standings.tenant_of(victim)] -= len(held(victim, self.state))
        for fall in self.pool.shortfalls(self.tenant, given, moved):
            due = {str(who): f"{float(amount):.3g}" for who, amount in self.pool.deserved().items()}
            holds = {str(who): amount for who, amount in self.pool.holds.items()}
            yield (
                f"{given} GPUs are taken for {self.pod.key} from {[pod.key for pod in self.victims]}, and the"
                f" sum of what users lack falls by {float(fall):.3g}: {holds} are held,"
                f" {due} deserved of {self.pool.capacity}."
            )

    def of_order(self) -> Iterator[str]:
        """Somebody who holds less waits for devices that would do."""
        mine, node = self.tenant, self.hold.node
        comes_first = dict[Tenant, bool]()
        for other in waiting(self.state, cover(self.state, self.now)):
            theirs = self.standings.tenant_of(other)
            if theirs not in comes_first:
                comes_first[theirs] = self.pool.is_before(theirs, mine)
            if not comes_first[theirs] or not is_queued(other) or is_of_a_gang(other):
                continue
            if not self.pool.is_beyond_limit(theirs, sum(needed(other).values())) and self._fits(other):
                yield (
                    f"{self.pod.key} has its turn on {node}, whose owner holds {self.pool.holds[mine]}"
                    f" {self.model}, before {other.key}, whose owner holds {self.pool.holds[theirs]}."
                )
                return

    def of_limit(self) -> Iterator[str]:
        """Its owner, or the group, has more with it than the policy allows."""
        given = len(self.hold.devices)
        if self.pool.is_beyond_limit(self.tenant, given):
            yield (
                f"{self.pod.key} gets {given} {self.model}, and {self.tenant} has"
                f" {self.pool.holds[self.tenant]}: more than the limit."
            )

    def _fits(self, other: Pod) -> bool:
        node, floor = self.hold.node, floor_of(self.state)
        free = for_nothing(other, node, self.model, self.state, floor, self.now)
        fitting = [d for d in _of_model(self.model, self.state, node) if d.uuid in free and _takes(other, d)]
        places = Places(self.state, floor, self.now)
        return len(fitting) >= sum(needed(other).values()) and any(places.open_to(other, [node]))


# --- over time ----------------------------------------------------------------------------------------------
class Takings:
    """What was taken for shares, and from whom."""

    def __init__(self) -> None:
        self._taken: dict[str, list[datetime]] = {}
        """Owner -> when pods of it were taken."""
        self._given: set[tuple[str, str]] = set()
        """(For whom, from whom), while nobody comes or goes by themselves."""
        self._ours: set[str] = set()
        """Owners whose pods we have taken, and which may come back."""

    def see(self, change: Change, state: State) -> Iterator[str]:
        """What a change breaks; state: after it."""
        before, after = change.pods or (None, None)
        leaves = departure(change)
        if leaves is not None and leaves.reason == "evicted" and not is_ordered(change):
            taker = next((u for u, h in holds(state).items() if leaves.pod.metadata.uid in h.victims), None)
            if taker is not None and holds(state)[taker].need == "share":
                yield from self._take(leaves.pod, state.pods[taker], change.instant)
                return
        if change.plural in {"bookings", "nodes"} and not _is_the_same(change):
            self._given.clear()
        pod = after or before
        if (
            pod is not None
            and needed(pod)
            and owner_of(pod) not in self._ours
            and (before is None or after is None or is_live(before) != is_live(after))
        ):
            self._given.clear()

    def _take(self, victim: Pod, taker: Pod, at: datetime) -> Iterator[str]:
        owner = owner_of(victim)
        self._ours.add(owner)
        recent = [then for then in self._taken.get(owner, ()) if at - then < DAY]
        if is_of_a_gang(victim) and recent and at - recent[-1] < TOGETHER:
            return
        self._taken[owner] = [*recent, at]
        left = turn_left(victim, at)
        if left > 0:
            yield f"{victim.key} is taken for a share in its turn, of which {left:.0f} s are left."
        if len(recent) >= MOST_A_DAY:
            yield f"{victim.key} is taken for a share, and {len(recent)} times before within a day."
        if is_owed(taker):
            return
        pair = named(taker), named(victim)
        if pair[::-1] in self._given:
            yield (
                f"{victim.key} of {pair[1]} is taken for {taker.key} of {pair[0]}, from whom GPUs were taken"
                f" for {pair[1]} before, and nobody else has come or gone since."
            )
        self._given.add(pair)


def named(pod: Pod) -> str:
    """Whose a pod is, whatever group that is in."""
    return str(_EQUAL.tenant_of(pod))


def turn_left(pod: Pod, at: datetime) -> float:
    """Seconds for which a pod may not be taken for a share, since it runs in a turn."""
    text, began = pod.metadata.annotation(names.TURN), pod.status.start_time
    return 0 if not text or began is None else int(text) - (at - began).total_seconds()


def owner_of(pod: Pod) -> str:
    """Equal for a pod and those that come in its place; for all pods of a gang."""
    if gang := gang_of(pod):
        return gang.key
    controller = pod.metadata.controller
    return controller.uid if controller else pod.key


def _is_the_same(change: Change) -> bool:
    """Whether a node is as good for pods as before."""
    if change.plural != "nodes" or change.before is None or change.after is None:
        return False
    before, after = (one.metadata.annotation(names.INVENTORY) for one in (change.before, change.after))
    return before == after


# --- in a quiet cluster -----------------------------------------------------------------------------------
def refused_though_free(state: State, now: datetime, standings: Standings) -> Iterator[str]:
    """A pod waits in line for a turn, and devices are free that would do."""
    silence, found = state.silence(names.CONTROLLER_LEASE, now), state.leases.get(names.CONTROLLER_LEASE)
    if found is None or silence is None or silence > GIVEN_FOR:
        return
    if not found.lease.metadata.annotation(names.FAIR_SHARES):
        return
    floor = floor_of(state)
    places = Places(state, floor, now)
    queued = (pod for pod in waiting(state, cover(state, now)) if is_queued(pod) and not is_of_a_gang(pod))
    for pod in queued:
        need, tenant = sum(needed(pod).values()), standings.tenant_of(pod)
        for name in state.nodes:
            by_model: Counter[str] = Counter()
            for device in filter(
                lambda d: d.is_healthy and _takes(pod, d), advertised_devices(state.nodes[name])
            ):
                by_model[device.model] += device.uuid in for_nothing(
                    pod, name, device.model, state, floor, now
                )
            enough = [model for model, free in by_model.items() if free >= need]
            pools = (pool_of(model, state, now, standings) for model in enough)
            is_allowed = any(not pool.is_beyond_limit(tenant, need) for pool in pools)
            if is_allowed and any(places.open_to(pod, [name])):
                yield f"{pod.key} waits in line, and {name} has devices for it that nobody holds."
                break
