"""L3: no needless victim.

Judged when a hold is written: it keeps just what its booked pod needs and requests, its victims are just
those who have that and may be taken, and there was no place without a victim, or with one fewer. And when a
pod is evicted: a hold must name it and a device of it, or the agent of its node says that it uses more of a
GPU than its share.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import chain, combinations
from typing import Final

import msgspec

from cluster import names
from cluster.objects.gangs import gang_of
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod, first_created, is_live
from tests.laws.changes import Change
from tests.laws.cover import cover
from tests.laws.departures import departure, is_ordered
from tests.laws.devices import (
    Floor,
    advertised_devices,
    device_faults,
    floor_of,
    held,
    hold_on,
    holds,
    needed,
    selected,
)
from tests.laws.groups import user_of
from tests.laws.over_use import uses_too_much
from tests.laws.places import Places, for_nothing, takes_room
from tests.laws.share_holds import ShareHold
from tests.laws.shares import is_sharing
from tests.laws.state import State

LAW: Final = "L3"
MOST_BEFORE: Final = 8
"""Booked pods that wait before another, of which all groups are tried."""
NOTHING: Final = frozenset[str]()


def unjust_hold(change: Change, state: State, now: datetime) -> Iterator[str]:
    """A hold is written that should not be as it is."""
    before, after = change.pods or (None, None)
    hold = hold_on(after) if after else None
    if after is None or hold is None or (before is not None and hold_on(before) == hold):
        return
    if known := state.pods.get(after.metadata.uid):
        after = msgspec.structs.replace(after, claims=known.claims)
    booking = cover(state, now, {user_of(after)}).get(after.metadata.uid)
    model = booking.spec.model if booking else _model_of(hold, state)
    if booking is None and hold.need == "booking":
        yield f"Devices are kept for {after.key}, which no booking covers."
        return
    case = _Case(after, hold, model, state, now, is_booked=booking is not None)
    for wrong in case.of_shares() if is_sharing(after) else case.of_all():
        yield f"The hold of {after.key} on {hold.node}: {wrong}."


def evicted_without_hold(change: Change, state: State, _now: datetime) -> Iterator[str]:
    """A pod is evicted that is in no booked pod's way."""
    leaves = departure(change)
    if leaves is None or leaves.reason != "evicted" or is_ordered(change):
        return
    victim = state.pods.get(leaves.pod.metadata.uid, leaves.pod)
    devices = held(victim, state)
    for uid, hold in holds(state).items():
        pod = state.pods[uid]
        if victim.metadata.uid not in hold.victims:
            continue
        # A gang leaves whole, so where one of its pods is in the way, all are.
        if devices & set(hold.devices) or gang_of(victim) or takes_room(victim, pod, hold, state):
            return
    if _is_of_half_a_gang(victim, state) or uses_too_much(victim, state):
        return
    yield f"{leaves.pod.key} is evicted, though no hold names it and a device of it, or needs its room."


def _is_of_half_a_gang(pod: Pod, state: State) -> bool:
    """Whether others of its gang wait: it starts whole, or is let go whole."""
    gang = gang_of(pod)
    others = (one for one in state.pods.values() if is_live(one) and not one.spec.node_name)
    return gang is not None and any(gang_of(one) == gang for one in others)


def _model_of(hold: Hold, state: State) -> str:
    """The model of the devices that are kept in a turn, which are all of one."""
    node = state.nodes.get(hold.node)
    devices = advertised_devices(node) if node else ()
    return next((device.model for device in devices if device.uuid in hold.devices), "")


@dataclass(frozen=True)
class _Case:
    """One hold in the state in which it was decided."""

    pod: Pod
    hold: Hold
    model: str
    state: State
    now: datetime
    is_booked: bool

    @cached_property
    def floor(self) -> Floor:
        """Without what is kept for turns where a booked pod is served: bookings are above shares."""
        floor = floor_of(self.state)
        if not self.is_booked:
            return floor
        turns = {uid for uid, hold in holds(self.state).items() if hold.need != "booking"}
        kept = {uuid: uids - turns for uuid, uids in floor.kept.items()}
        return replace(floor, kept={uuid: uids for uuid, uids in kept.items() if uids})

    @property
    def need(self) -> int:
        return self._needed(self.pod)

    @cached_property
    def holders(self) -> frozenset[str]:
        """Who has a device of the hold and has not begun to terminate."""
        uids = (self.floor.holders.get(uuid, frozenset()) for uuid in self.hold.devices)
        return frozenset(uid for uid in frozenset[str]().union(*uids) if is_live(self.state.pods[uid]))

    def of_all(self) -> Iterator[str]:
        """Everything that is wrong with it."""
        yield from self.of_devices()
        yield from self.of_victims()
        yield from self.of_places()

    def of_shares(self) -> Iterator[str]:
        """The same for a pod with shares."""
        booked = cover(self.state, self.now)
        mine = (self.pod, self.hold, self.model, self.state, self.floor, self.places, booked)
        return ShareHold(*mine).faults()

    def of_devices(self) -> Iterator[str]:
        """The faults of its devices."""
        devices = set(self.hold.devices)
        if not len(devices) == len(self.hold.devices) == self.need:
            yield f"it keeps {len(self.hold.devices)} devices, and the pod needs {self.need}"
        yield from device_faults(self.pod, self.hold, self.state, self.floor, model=self.model)

    @cached_property
    def victims(self) -> frozenset[str]:
        """Who has to leave for it: those named who live."""
        return frozenset(uid for uid in self.hold.victims if (p := self.state.pods.get(uid)) and is_live(p))

    @cached_property
    def places(self) -> Places:
        return Places(self.state, self.floor, self.now)

    def of_victims(self) -> Iterator[str]:
        """The faults of its victims."""
        victims = set(self.hold.victims)
        theirs = {user_of(pod) for uid in victims if (pod := self.state.pods.get(uid))}
        booked = cover(self.state, self.now, theirs)
        # A reservation pod goes by itself.
        stay = {uid for uid in self.holders if not self.state.pods[uid].metadata.annotation(names.RESERVES)}
        for uid in sorted(stay - victims):
            yield f"{self.state.pods[uid].key} has a device of it and is not among its victims"
        for uid in sorted(victims):
            victim = self.state.pods.get(uid)
            name = victim.key if victim else uid
            if uid in booked:
                yield f"its victim {name} is booked by {booked[uid].name}"
            elif any(self._has_of_it(mate) for mate in self._with_mates(uid) - {uid}):
                continue
            elif victim is None or not held(victim, self.state) & self._usable():
                yield f"its victim {name} has no device of the model there"
            elif not held(victim, self.state) & set(self.hold.devices) and self._is_room_without(uid):
                yield f"its victim {name} has no device of it, and nothing else that is needed"

    def of_places(self) -> Iterator[str]:
        """Where fewer would have had to go."""
        if not self.victims:
            return
        there = self._free_for(self.pod, NOTHING)
        mine = {node: there[node] for node in self._nodes_of(self.pod, there)}
        if self._could_be_served(mine, NOTHING):
            yield "; ".join(
                f"{node} has {len(mine[node])} devices for which nobody has to go" for node in sorted(mine)
            )
        here = self.hold.node
        for uid in sorted(self.victims):
            others = self._freed_by(self.victims - self._with_mates(uid))
            found = self._free_for(self.pod, others).get(here, NOTHING)
            is_enough = len(found) >= self.need and self._is_room_without(uid)
            if is_enough and self._could_be_served({here: found}, others):
                yield f"its victim {self.state.pods[uid].key} could be spared"

    def _free_for(self, pod: Pod, others: frozenset[str]) -> Mapping[str, frozenset[str]]:
        """Node -> devices that would do for the pod, these of the hold's node being free as well."""
        found = {node: self._for_nothing(node) for node in self.state.nodes}
        if self.hold.node in found:
            found[self.hold.node] |= others
        return {node: selected(pod, node, self.state, devices) for node, devices in found.items()}

    def _is_room_without(self, uid: str) -> bool:
        """Whether the pod would find room on the node if this victim stayed."""
        return self.places.suits(self.pod, self.hold.node, self.victims - self._with_mates(uid))

    def _with_mates(self, uid: str) -> frozenset[str]:
        """A victim, with those of its gang: a gang leaves whole."""
        gangs = {one: gang_of(pod) for one in self.hold.victims if (pod := self.state.pods.get(one))}
        gang = gangs.get(uid)
        return frozenset({uid, *(one for one, its in gangs.items() if gang and its == gang)})

    def _has_of_it(self, uid: str) -> bool:
        victim = self.state.pods.get(uid)
        return victim is not None and bool(held(victim, self.state) & set(self.hold.devices))

    def _could_be_served(self, mine: Mapping[str, frozenset[str]], others: frozenset[str]) -> bool:
        """Whether the pod could be served with these devices of these nodes, and those before it too.

        Those who are served before it and fit on free devices may take them: for no group of them may the
        nodes have too few that would do (Hall's condition). Of many, nobody tries out all groups.
        """
        if not mine or len(self._before) > MOST_BEFORE:
            return False
        wanting = [(self._needed(pod), self._in_mind(pod, others)) for pod in self._before]
        for group in chain.from_iterable(combinations(wanting, n) for n in range(len(wanting) + 1)):
            devices = NOTHING.union(*mine.values(), *(theirs for _, theirs in group))
            if len(devices) < self.need + sum(need for need, _ in group):
                return False
        return True

    def _in_mind(self, pod: Pod, others: frozenset[str]) -> frozenset[str]:
        """Devices with which another pod could be served."""
        there = self._free_for(pod, others)
        return NOTHING.union(*(there[node] for node in self._nodes_of(pod, there)))

    @cached_property
    def _before(self) -> list[Pod]:
        """Booked pods of the same model that wait without a hold and are served before it."""
        booked, place = cover(self.state, self.now), (first_created(self.pod), self.pod.metadata.uid)
        pods = [self.state.pods[uid] for uid, by in booked.items() if by.spec.model == self.model]
        return [
            pod
            for pod in pods
            if not pod.spec.node_name
            and not pod.spec.scheduling_gates
            and hold_on(pod) is None
            and (first_created(pod), pod.metadata.uid) < place
        ]

    def _nodes_of(self, pod: Pod, there: Mapping[str, frozenset[str]]) -> Iterator[str]:
        """Nodes with enough devices on which the pod could be bound."""
        need = self._needed(pod)
        enough = [name for name, devices in there.items() if len(devices) >= need]
        return (node.metadata.name for node in self.places.open_to(pod, enough)) if enough else iter(())

    @staticmethod
    def _needed(pod: Pod) -> int:
        return sum(needed(pod).values())

    def _usable(self) -> frozenset[str]:
        return self.floor.usable(self.hold.node, self.model)

    def _for_nothing(self, node: str) -> frozenset[str]:
        return for_nothing(self.pod, node, self.model, self.state, self.floor, self.now)

    def _freed_by(self, uids: frozenset[str]) -> frozenset[str]:
        """Devices that nobody holds any more once these have left: all of their holders, if they share."""
        return frozenset(
            uuid
            for uuid in self._usable()
            if not self.floor.kept.get(uuid, NOTHING) - {self.pod.metadata.uid}
            and (holders := self.floor.holders.get(uuid, NOTHING)) & uids
            and all(uid in uids or not is_live(self.state.pods[uid]) for uid in holders)
        )
