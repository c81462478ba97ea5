"""Nodes of a simulation: who holds which devices, and the snapshot that the product's search reads."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from cluster.decide.eviction.victim_selection import NodeCandidate, Victim, VictimSelection
from cluster.decide.fairshare import Running, Unit
from cluster.decide.fairshare.settings import Amount

Placement = tuple[tuple[str, tuple[str, ...]], ...]
"""For each pod of a unit: its node, and its devices."""


class Machines:
    """Equal nodes."""

    def __init__(self, nodes: int, gpus: int) -> None:
        """Args: nodes: their number; gpus: of each."""
        self.gpus = gpus
        names = [f"n{number:03}" for number in range(nodes)]
        self.free: dict[str, list[str]] = {name: [f"{name}/{i}" for i in range(gpus)] for name in names}
        self.on: dict[str, dict[str, tuple[str, ...]]] = {name: {} for name in names}
        """Node -> unit's uid -> its devices there."""

    @property
    def capacity(self) -> int:
        """All devices."""
        return self.gpus * len(self.free)

    def holds_if_empty(self, parts: Iterable[Amount]) -> bool:
        """Whether a unit would fit if nothing ran."""
        return self._placed(parts, {name: [""] * self.gpus for name in self.free}) is not None

    def place(self, parts: Iterable[Amount], without: AbstractSet[str] = frozenset()) -> Placement | None:
        """Free devices for a unit, on the fullest nodes that have enough; nothing is taken yet."""
        return self._placed(parts, {k: v for k, v in self.free.items() if v and k not in without})

    def _placed(self, parts: Iterable[Amount], free: dict[str, list[str]]) -> Placement | None:
        left, found = dict(free), []
        for part in parts:
            node = min(
                (name for name, devices in left.items() if len(devices) >= part),
                key=lambda name: (len(left[name]), name),
                default=None,
            )
            if node is None:
                return None
            found.append((node, tuple(left[node][: int(part)])))
            left[node] = left[node][int(part) :]
        return tuple(found)

    def take(self, uid: str, placement: Placement) -> None:
        """The unit has these devices now."""
        for node, devices in placement:
            self.on[node][uid] = (*self.on[node].get(uid, ()), *devices)
            self.free[node] = [device for device in self.free[node] if device not in devices]

    def release(self, uid: str, nodes: Iterable[str]) -> None:
        """The unit has nothing any more."""
        for node in set(nodes):
            self.free[node] += self.on[node].pop(uid)


class Snapshot:
    """The machines as ``cluster.decide.fairshare.Places``, for one pass."""

    moves: Final = True
    """A unit that finds room elsewhere is not a loss."""

    def __init__(self, machines: Machines, running: Mapping[str, Running], costs: Mapping[str, int]) -> None:
        """Args: machines: as they are; running: uid -> unit; costs: uid -> GPU-microseconds it would lose."""
        self._machines, self._running, self._costs = machines, running, costs
        self._free = dict(machines.free)
        self._gone: set[str] = set()
        self._candidates: dict[str, NodeCandidate] = {}

    def bounds(self, unit: Unit, gpus: Amount) -> Iterable[tuple[int, str]]:
        """Every node, with the cheapest victim's cost where one is needed."""
        for node in self._machines.free:
            candidate = self.candidate(node, unit)
            if len(candidate.free) + len(candidate.leaving) >= gpus:
                yield 0, node
            elif candidate.victims:
                yield min(victim.cost + victim.gang_cost for victim in candidate.victims), node

    def candidate(self, node: str, unit: Unit) -> NodeCandidate:
        """The node as it is after what the pass has settled, the same for every unit."""
        found = self._candidates.get(node)
        if found is None:
            victims = tuple(
                self._victim(uid, devices)
                for uid, devices in self._machines.on[node].items()
                if uid not in self._gone and uid in self._running and uid != unit.uid
            )
            found = NodeCandidate(node=node, free=tuple(self._free[node]), victims=victims)
            self._candidates[node] = found
        return found

    def nodes_of(self, pods: Iterable[str]) -> AbstractSet[str]:
        """The nodes of these units."""
        return {node for uid in pods for node, on in self._machines.on.items() if uid in on}

    def _victim(self, uid: str, devices: tuple[str, ...]) -> Victim:
        one, cost = self._running[uid], self._costs[uid]
        is_gang = bool(one.unit.members)
        return Victim(
            uid=uid,
            devices=devices,
            cost=0 if is_gang else cost,
            since=one.since,
            evictions=one.evictions,
            gang=uid if is_gang else "",
            gang_cost=cost if is_gang else 0,
        )

    def suits(self, unit: Unit, selection: VictimSelection) -> bool:
        """Devices alone decide here."""
        return len(selection.devices) <= unit.gpus

    def elsewhere(self, units: Iterable[Running], without: AbstractSet[str] = frozenset()) -> frozenset[str]:
        """Those that fit on free devices, one after the other."""
        units = list(units)
        uids = {one.unit.uid for one in units}
        theirs = {node for node, on in self._machines.on.items() if not uids.isdisjoint(on)}
        left = {k: list(v) for k, v in self._free.items() if v and k not in without and k not in theirs}
        found: set[str] = set()
        for one in units if left else ():
            placement = self._machines._placed(one.unit.parts, left)
            if placement is not None:
                found.add(one.unit.uid)
                for node, devices in placement:
                    left[node] = left[node][len(devices) :]
        return frozenset(found)

    def settle(self, unit: Unit, selections: tuple[VictimSelection, ...]) -> None:
        """The victims are gone, and the devices are the unit's."""
        uids = {victim.uid for selection in selections for victim in selection.victims}
        taken = {device for selection in selections for device in selection.devices}
        touched = {selection.node for selection in selections}
        for node, on in self._machines.on.items():
            freed = [d for uid in uids if uid in on and uid not in self._gone for d in on[uid]]
            if freed:
                touched.add(node)
                self._free[node] = [*self._free[node], *freed]
        for node in touched:
            self._free[node] = [device for device in self._free[node] if device not in taken]
            self._candidates.pop(node, None)
        self._gone |= uids | {unit.uid}
