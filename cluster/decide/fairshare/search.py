"""The cheapest units that may be taken for another one: exact on each node, few nodes examined closely.

Nodes are examined in the order of a lower bound of what the unit would destroy there. On a node, sets of
victims are tried in the order of their price until one is legal and makes the node suitable. A gang is placed
pod by pod, the largest first; at the end, victims that it does not need after all are dropped.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush
from itertools import chain, islice
from math import ceil, inf
from typing import Final, Protocol

from cluster.decide.eviction.victim_selection import (
    NO_VICTIMS,
    NodeCandidate,
    Rank,
    Victim,
    VictimSelection,
    price,
    sets,
    taking,
)
from cluster.decide.fairshare.settings import Amount
from cluster.decide.fairshare.tenants import Tenant
from cluster.decide.fairshare.units import Running, Unit

MOST_SETS: Final = 256
"""Sets of victims that are tried on a node, at most."""


class Places(Protocol):
    """The nodes of a pass, with what it has already given away. The product's snapshot, or a simulation."""

    @property
    def moves(self) -> bool:
        """Whether ``elsewhere`` ever finds room for anybody."""
        ...

    def bounds(self, unit: Unit, gpus: Amount) -> Iterable[tuple[int, str]]:
        """Nodes that could hold a pod of the unit with so many GPUs if enough others left.

        Each with a lower bound of what that destroys, in GPU-microseconds; 0 is always true.
        """
        ...

    def candidate(self, node: str, unit: Unit) -> NodeCandidate:
        """What the node has for the unit: free devices, devices of leaving pods, pods that may be evicted.

        Like the bounds it is the same for units of equal kind and size.
        """
        ...

    def nodes_of(self, pods: Iterable[str]) -> AbstractSet[str]:
        """Where these pods run. Args: pods: uids of pods that hold devices."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a search may take."""

    may_leave: Callable[[Running], bool]
    """Whether a unit may leave at all."""
    permits: Permits
    most: Callable[[Tenant], Amount | None] = lambda _: None
    """What a tenant may lose at most; None: that depends. A quick filter."""
    givers: AbstractSet[Tenant] | None = None
    """Of whom units may leave; None: of anybody. Where none of theirs is, nobody is looked for."""


class Search:
    """Searches of one pass. What it has read of the nodes is kept until something is settled on them."""

    def __init__(self, places: Places, unit_of: Mapping[str, Running]) -> None:
        """Args: places: the nodes; unit_of: uid of a pod that may leave -> its unit."""
        self._places = places
        self._unit_of = unit_of
        self._bounds: dict[Hashable, list[tuple[int, str]]] = {}
        self._candidates: dict[Hashable, NodeCandidate] = {}
        self._nodes: tuple[AbstractSet[Tenant], AbstractSet[str]] = (frozenset(), frozenset())
        """The tenants who were asked for last, and where their pods run."""

    @cached_property
    def smallest(self) -> Mapping[Tenant, Amount]:
        """Tenant -> GPUs of the smallest of its units that run."""
        found: dict[Tenant, Amount] = {}
        for one in self._unit_of.values():
            tenant, gpus = one.unit.tenant, one.unit.gpus
            if gpus < found.get(tenant, inf):
                found[tenant] = gpus
        return found

    def settled(self) -> None:
        """The nodes are not what they were."""
        self._bounds, self._candidates = {}, {}

    def bounds(self, unit: Unit, gpus: Amount, givers: AbstractSet[Tenant] | None) -> list[tuple[int, str]]:
        """Nodes where something is free, or somebody may leave, by a lower bound of what is lost."""
        key = (unit.kind, unit.gpus, unit.members, gpus)
        if key not in self._bounds:
            self._bounds[key] = sorted(self._places.bounds(unit, gpus))
        known = self._bounds[key]
        if givers is None:
            return known
        if sum(len(self._pods_of.get(one, ())) for one in givers) >= len(known):
            return known  # hardly a node would be left out
        nodes = self._nodes_of(givers)
        return [one for one in known if one[0] == 0 or one[1] in nodes]

    def candidate(self, node: str, unit: Unit) -> NodeCandidate:
        """What the node has for the unit."""
        key = (node, unit.kind, unit.gpus, unit.members)
        if key not in self._candidates:
            self._candidates[key] = self._places.candidate(node, unit)
        return self._candidates[key]

    def suits(self, unit: Unit, selection: VictimSelection) -> bool:
        """Whether a pod of the unit would be placed there."""
        return self._places.suits(unit, selection)

    def cheapest(self, unit: Unit, rules: Rules) -> Found | None:
        """The cheapest way to place the unit; None if there is none."""
        known: dict[str, bool] = {}

        def may_leave(one: Running) -> bool:
            if one.unit.uid not in known:
                known[one.unit.uid] = rules.may_leave(one)
            return known[one.unit.uid]

        found = _Attempt(self, self._unit_of, unit, replace(rules, may_leave=may_leave)).run()
        if found is None or not any(one.unit.members for one in found.units.values()):
            return found
        return self._without_needless(unit, rules, found)

    @cached_property
    def _pods_of(self) -> Mapping[Tenant, list[str]]:
        found: dict[Tenant, list[str]] = {}
        for uid, one in self._unit_of.items():
            found.setdefault(one.unit.tenant, []).append(uid)
        return found

    def _nodes_of(self, tenants: AbstractSet[Tenant]) -> AbstractSet[str]:
        if tenants != self._nodes[0]:
            pods = chain.from_iterable(self._pods_of.get(one, ()) for one in tenants)
            self._nodes = (tenants, self._places.nodes_of(pods))
        return self._nodes[1]

    def _without_needless(self, unit: Unit, rules: Rules, found: Found) -> Found:
        """The same where units are spared that are not needed, because a gang among them leaves whole."""
        cost: dict[str, int] = {}
        for victim in {victim for selection in found.selections for victim in selection.victims}:
            uid = self._unit_of[victim.uid].unit.uid
            cost[uid] = cost.get(uid, 0) + victim.cost + victim.gang_cost
        for spared in sorted(found.units, key=lambda uid: (-cost[uid], uid)):
            found = self._only(frozenset(found.units) - {spared}, unit, rules, found) or found
        return found

    def _only(self, kept: Collection[str], unit: Unit, rules: Rules, found: Found) -> Found | None:
        """The same where none but these units leave; None if that is not enough."""
        fewer = replace(rules, may_leave=lambda one: one.unit.uid in kept)
        return _Attempt(self, self._unit_of, unit, fewer, only=found.nodes).run()


_Entry = tuple[Rank, str, int, VictimSelection | None]
"""Rank or a lower bound of it, node, for how many pods something was chosen before, its choice once known."""


class _Attempt:
    """One unit, pod after pod. The nodes wait in a queue: by a bound, once examined by the exact rank."""

    def __init__(
        self,
        nodes: Search,
        unit_of: Mapping[str, Running],
        unit: Unit,
        rules: Rules,
        *,
        only: AbstractSet[str] | None = None,
    ) -> None:
        self._nodes, self._unit_of, self._unit, self._rules, self._only = nodes, unit_of, unit, rules, only
        self._selections: list[VictimSelection] = []
        self._used: dict[str, set[str]] = {}
        self._victims: dict[str, Victim] = {}
        self._units: dict[str, Running] = {}
        self._queue: list[_Entry] = []

    def run(self) -> Found | None:
        """Devices for all pods, or None."""
        before: int | None = None
        for gpus in self._unit.parts:
            need = ceil(gpus)
            if need != before:
                self._begin(need)
                before = need
            selection = self._best(need)
            if selection is None:
                return None
            self._keep(selection, need)
        lost = price(tuple(self._victims.values()))[0]
        return Found(tuple(self._selections), self._units, lost)

    def _begin(self, need: int) -> None:
        version = len(self._selections)
        self._queue = [
            (_at_least(lost), node, version, None)
            for lost, node in self._nodes.bounds(self._unit, need, self._rules.givers)
            if self._only is None or node in self._only
        ]  # sorted, so it is a heap

    def _best(self, need: int) -> VictimSelection | None:
        now = len(self._selections)
        while self._queue:
            _, node, version, selection = heappop(self._queue)
            if selection is not None and (version == now or self._permits(node, selection.victims)):
                return selection
            selection = self._examine(node, need)
            if selection is not None:
                heappush(self._queue, (selection.rank, node, now, selection))
        return None

    def _keep(self, selection: VictimSelection, need: int) -> None:
        self._selections.append(selection)
        self._used.setdefault(selection.node, set()).update(selection.devices)
        leaves_elsewhere = False
        for victim in selection.victims:
            running = self._unit_of[victim.uid]
            self._victims[victim.uid] = victim
            self._units[running.unit.uid] = running
            leaves_elsewhere = leaves_elsewhere or bool(running.unit.members)
        if leaves_elsewhere:
            self._begin(need)
        else:
            heappush(self._queue, (_at_least(0), selection.node, len(self._selections), None))

    def _examine(self, node: str, need: int) -> VictimSelection | None:
        """The cheapest on this node that is legal together with what was chosen before."""
        candidate = self._left(self._nodes.candidate(node, self._unit))
        there = len(candidate.free) + len(candidate.leaving) + len(candidate.outgoing_devices)
        missing = need - there
        if missing > 0 and not self._can_lose(candidate.victims, missing):
            return None
        for victims in islice(sets(candidate.victims, missing), MOST_SETS):
            selection = taking(candidate, need, victims)
            if self._permits(node, victims) and self._nodes.suits(self._unit, selection):
                return selection
        return None

    def _can_lose(self, victims: tuple[Victim, ...], missing: int) -> bool:
        of_tenant: dict[Tenant, int] = {}
        for victim in victims:
            tenant = self._unit_of[victim.uid].unit.tenant
            of_tenant[tenant] = of_tenant.get(tenant, 0) + len(victim.devices)
        left: Amount = missing
        for tenant, devices in of_tenant.items():
            most = self._rules.most(tenant)
            left -= devices if most is None else min(devices, most)
        return left <= 0

    def _permits(self, node: str, victims: tuple[Victim, ...]) -> bool:
        units = dict(self._units)
        for victim in victims:
            running = self._unit_of[victim.uid]
            units[running.unit.uid] = running
        return self._rules.permits(units, {*self._used, node})

    def _left(self, candidate: NodeCandidate) -> NodeCandidate:
        """The node after the pods before, with the victims that may leave."""
        used = self._used.get(candidate.node, set())
        victims: list[Victim] = []
        freed: list[str] = []
        for victim in candidate.victims:
            running = self._unit_of.get(victim.uid)
            if running is None:
                continue
            if running.unit.uid in self._units:
                freed += victim.devices
            elif self._rules.may_leave(running):
                victims.append(victim)
        if not used and not freed:
            return replace(candidate, victims=tuple(victims))
        return replace(
            candidate,
            free=tuple(device for device in candidate.free if device not in used),
            leaving=tuple(device for device in (*candidate.leaving, *freed) if device not in used),
            outgoing_devices=tuple(d for d in candidate.outgoing_devices if d not in used),
            victims=tuple(victims),
        )


def _at_least(lost: int) -> Rank:
    """A rank that is not behind any choice that destroys this much."""
    return ((lost, *NO_VICTIMS[1:]), False, 0, "")
