"""The cheapest units that may be taken for another one: exact on each node, few nodes examined closely.

Nodes are examined in the order of a lower bound of what the unit would destroy there. On a node, sets of
victims are tried in the order of their price until one is legal and makes the node suitable. A gang is placed
pod by pod, the largest first; at the end, victims that it does not need after all are dropped.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop
from itertools import islice
from math import ceil
from typing import Final, Protocol

from cluster.decide.eviction.victim_selection import (
    NodeCandidate,
    Rank,
    Victim,
    VictimSelection,
    price,
    sets,
    taking,
)
from cluster.decide.fairshare.settings import Amount
from cluster.decide.fairshare.units import Running, Unit

MOST_SETS: Final = 256
"""Sets of victims that are tried on a node, at most."""


class Places(Protocol):
    """The nodes of a pass, with what it has already given away. The product's snapshot, or a simulation."""

    def bounds(self, unit: Unit, gpus: Amount) -> Iterable[tuple[int, str]]:
        """Nodes that could hold a pod of the unit with so many GPUs if enough others left.

        Each with a lower bound of what that destroys, in GPU-microseconds; 0 is always true.
        """
        ...

    def candidate(self, node: str, unit: Unit) -> NodeCandidate:
        """What the node has for the unit: free devices, devices of leaving pods, pods that may be evicted."""
        ...

    def suits(self, unit: Unit, selection: VictimSelection) -> bool:
        """Whether a pod of the unit would be placed on these devices, with these victims gone."""
        ...

    def elsewhere(self, units: Iterable[Running], without: AbstractSet[str] = frozenset()) -> frozenset[str]:
        """Uids of those of these units that find free devices elsewhere at once, all of them together.

        Not on the nodes ``without``, and not on those where the units are.
        """
        ...

    def settle(self, unit: Unit, selections: tuple[VictimSelection, ...]) -> None:
        """The unit gets these devices: for the rest of the pass they and the victims are gone."""
        ...


Permits = Callable[[Mapping[str, Running], AbstractSet[str]], bool]
"""Whether these units, by uid, may leave together for one that goes to these nodes."""


@dataclass(frozen=True, slots=True)
class Found:
    """Devices for all pods of a unit."""

    selections: tuple[VictimSelection, ...]
    units: Mapping[str, Running]
    """The units that leave, by uid."""
    lost: int
    """GPU-microseconds."""

    @property
    def nodes(self) -> frozenset[str]:
        """Where the unit goes."""
        return frozenset(selection.node for selection in self.selections)


@dataclass
class _Chosen:
    """What the pods before have been given."""

    selections: list[VictimSelection] = field(default_factory=list)
    used: dict[str, set[str]] = field(default_factory=dict)
    victims: dict[str, Victim] = field(default_factory=dict)
    units: dict[str, Running] = field(default_factory=dict)


class Search:
    """Searches of one pass over the same nodes."""

    def __init__(self, places: Places, unit_of: Mapping[str, Running]) -> None:
        """Args: places: the nodes; unit_of: uid of a pod that may leave -> its unit."""
        self._places = places
        self._unit_of = unit_of

    def cheapest(self, unit: Unit, may_leave: Callable[[Running], bool], permits: Permits) -> Found | None:
        """The cheapest way to place the unit; None if there is none.

        Args:
            unit: what is to be placed.
            may_leave: whether a unit may leave at all: a quick filter.
            permits: whether a whole set may leave.
        """
        known: dict[str, bool] = {}

        def may(one: Running) -> bool:
            if one.unit.uid not in known:
                known[one.unit.uid] = may_leave(one)
            return known[one.unit.uid]

        found = self._place(unit, may, permits)
        if found is None or not unit.members:
            return found
        cost = {uid: self._cost(found, one) for uid, one in found.units.items()}
        for spared in sorted(found.units, key=lambda uid: (-cost[uid], uid)):
            kept = frozenset(found.units) - {spared}
            fewer = self._place(unit, lambda one, kept=kept: one.unit.uid in kept, permits)  # type: ignore[misc]
            found = fewer or found
        return found

    def _cost(self, found: Found, one: Running) -> int:
        mine = [
            victim
            for selection in found.selections
            for victim in selection.victims
            if self._unit_of[victim.uid].unit.uid == one.unit.uid
        ]
        return price(tuple(mine))[0]

    def _place(self, unit: Unit, may_leave: Callable[[Running], bool], permits: Permits) -> Found | None:
        chosen = _Chosen()
        for gpus in unit.parts:
            selection = self._best(unit, ceil(gpus), chosen, may_leave, permits)
            if selection is None:
                return None
            chosen.selections.append(selection)
            chosen.used.setdefault(selection.node, set()).update(selection.devices)
            for victim in selection.victims:
                chosen.victims[victim.uid] = victim
                running = self._unit_of[victim.uid]
                chosen.units[running.unit.uid] = running
        lost = price(tuple(chosen.victims.values()))[0]
        return Found(tuple(chosen.selections), chosen.units, lost)

    def _best(
        self, unit: Unit, need: int, chosen: _Chosen, may_leave: Callable[[Running], bool], permits: Permits
    ) -> VictimSelection | None:
        queue = list(self._places.bounds(unit, need))
        heapify(queue)
        best: VictimSelection | None = None
        while queue and (best is None or queue[0][0] <= best.rank[0][0]):
            _, node = heappop(queue)
            candidate = self._left(self._places.candidate(node, unit), chosen, may_leave)
            selection = self._on_node(
                unit, need, candidate, chosen, permits, None if best is None else best.rank
            )
            if selection is not None:
                best = selection
        return best

    def _left(
        self, candidate: NodeCandidate, chosen: _Chosen, may_leave: Callable[[Running], bool]
    ) -> NodeCandidate:
        """The node after the pods before, with the victims that may leave."""
        used = chosen.used.get(candidate.node, set())
        freed = [
            device
            for victim in candidate.victims
            if (running := self._unit_of.get(victim.uid)) and running.unit.uid in chosen.units
            for device in victim.devices
        ]
        victims = tuple(
            victim
            for victim in candidate.victims
            if (running := self._unit_of.get(victim.uid))
            and running.unit.uid not in chosen.units
            and may_leave(running)
        )
        if not used and not freed:
            return (
                candidate if len(victims) == len(candidate.victims) else replace(candidate, victims=victims)
            )
        return replace(
            candidate,
            free=tuple(device for device in candidate.free if device not in used),
            leaving=tuple(device for device in (*candidate.leaving, *freed) if device not in used),
            outgoing_devices=tuple(d for d in candidate.outgoing_devices if d not in used),
            victims=victims,
        )

    def _on_node(
        self,
        unit: Unit,
        need: int,
        candidate: NodeCandidate,
        chosen: _Chosen,
        permits: Permits,
        better_than: Rank | None,
    ) -> VictimSelection | None:
        there = len(candidate.free) + len(candidate.leaving) + len(candidate.outgoing_devices)
        missing = need - there
        if missing > sum(len(victim.devices) for victim in candidate.victims):
            return None
        for victims in islice(sets(candidate.victims, missing), MOST_SETS):
            selection = taking(candidate, need, victims)
            if better_than is not None and selection.rank >= better_than:
                return None
            together = (*chosen.victims.values(), *victims)
            units = {one.unit.uid: one for victim in together for one in (self._unit_of[victim.uid],)}
            nodes = {*chosen.used, candidate.node}
            if permits(units, nodes) and self._places.suits(unit, selection):
                return selection
        return None
