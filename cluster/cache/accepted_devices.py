"""Which devices of the cluster satisfy the terms of claims, judged again only where something has changed.

Of each node its ResourceSlices say what is judged, and its inventory which device that is. They come in any
order, thousands at a start: so a change of a node costs the judgement of its own devices.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from cluster.decide.claims.terms import Accepted, Entry, Judged, Terms, is_shared, verdict
from cluster.objects.claims import ResourceSlice
from cluster.objects.inventory import Device

NOTHING: Final[Mapping[str, Device]] = {}
MOST_TERMS: Final = 256
"""Different terms that are followed; with more, all that have been judged are forgotten."""


@dataclass(frozen=True, slots=True)
class _OfNode:
    """What one node has."""

    devices: tuple[Device, ...] = ()
    number: int = 0
    """Devices that would do, also those that the inventory does not know."""
    unknown: str | None = None
    shared: int = 0
    """How many of ``number`` several claims can have."""


_NONE: Final = _OfNode()


@dataclass(slots=True)
class _OfTerms:
    """What all nodes have."""

    nodes: dict[str, _OfNode] = field(default_factory=dict)
    """Only those that have something."""
    models: Counter[str] = field(default_factory=Counter)
    uuids: set[str] = field(default_factory=set)
    accepted: Accepted | None = None
    """The answer, until something changes."""

    def put(self, node: str, now: _OfNode) -> bool:
        """A node has this from now on; returns whether that is news."""
        before = self.nodes.get(node, _NONE)
        if before == now:
            return False
        self.nodes.pop(node, None)
        if now != _NONE:
            self.nodes[node] = now
        self.uuids -= {device.uuid for device in before.devices}
        self.uuids |= {device.uuid for device in now.devices}
        self.models.subtract(device.model for device in before.devices)
        self.models.update(device.model for device in now.devices)
        self.accepted = None
        return True

    def answer(self) -> Accepted:
        if self.accepted is None:
            numbers = {one.number for one in self.nodes.values() if one.number}
            shared = sum(one.shared for one in self.nodes.values())
            is_mixed = 0 < shared < sum(one.number for one in self.nodes.values())
            self.accepted = Accepted(
                frozenset(self.uuids),
                frozenset(+self.models),
                next((one.unknown for _, one in sorted(self.nodes.items()) if one.unknown), None),
                shared=None if is_mixed else shared > 0,
                each=None if len(numbers) > 1 else next(iter(numbers), 0),
            )
        return self.accepted


class AcceptedDevices:
    """The devices that terms accept. Guarded by the cache's lock."""

    def __init__(self, driver: str, judged: Judged) -> None:
        """Args: driver: ours; judged: evaluates an expression."""
        self._driver, self._judged = driver, judged
        self._slices: dict[str, dict[str, ResourceSlice]] = {}
        """Node -> its slices of our driver by their names."""
        self._wiped: dict[str, list[ResourceSlice]] = {}
        """Node -> those that were deleted since its slices were complete."""
        self._devices: dict[str, Mapping[str, Device]] = {}
        """Node -> name in its slices -> device."""
        self._terms: dict[Terms, _OfTerms] = {}
        self._has_forgotten = False

    def of(self, terms: Terms) -> Accepted:
        """The devices that satisfy these terms."""
        known = self._terms.get(terms)
        if known is None:
            if len(self._terms) >= MOST_TERMS:
                self._terms.clear()
                self._has_forgotten = True
            known = self._terms[terms] = _OfTerms()
            for node in self._slices:
                known.put(node, self._judge(terms, node))
        return known.answer()

    def change_slice(self, key: str, before: ResourceSlice | None, now: ResourceSlice | None) -> bool:
        """A slice is new, has changed or is gone; returns whether any answer is different now.

        A kubelet deletes all slices of its node when it starts, and the agent writes them again: until then
        the node has the devices that it had, or pods would leave elsewhere although nothing has changed.
        """
        for one in (before, now):
            if one and one.spec.driver == self._driver:
                of_node = self._slices.setdefault(one.spec.node_name, {})
                of_node.pop(key, None)
                if one is now:
                    of_node[key] = one
                elif now is None:
                    self._wiped.setdefault(one.spec.node_name, []).append(one)
                if _is_complete(of_node.values()):
                    self._wiped.pop(one.spec.node_name, None)
        nodes = {one.spec.node_name for one in (before, now) if one and one.spec.driver == self._driver}
        return self._change(nodes)

    def change_devices(self, node: str, devices: Mapping[str, Device]) -> bool:
        """A node's inventory has changed: by name in its slices; returns as above."""
        self._devices[node] = devices
        return self._change({node})

    def _change(self, nodes: set[str]) -> bool:
        news = [
            known.put(node, self._judge(terms, node))
            for terms, known in self._terms.items()
            for node in sorted(nodes)
        ]
        has_forgotten, self._has_forgotten = self._has_forgotten, False
        return any(news) or has_forgotten

    def _judge(self, terms: Terms, node: str) -> _OfNode:
        known = self._devices.get(node, NOTHING)
        found: list[Device] = []
        number, shared, unknown = 0, 0, None
        for entry in self._entries(node):
            judged = verdict(terms, self._driver, entry, self._judged)
            if isinstance(judged, str):
                unknown = unknown or judged
            elif judged:
                device = known.get(entry.get("name", ""))
                is_there = device is not None or bool(self._slices[node])
                number, shared = number + is_there, shared + (is_there and is_shared(entry))
                if device:
                    found.append(device)
        return _OfNode(tuple(found), number, unknown, shared)

    def _entries(self, node: str) -> Iterator[Entry]:
        there = [one for _, one in sorted(self._slices.get(node, {}).items())]
        names = {entry.get("name") for one in there for entry in one.spec.devices}
        for one in there:
            yield from one.spec.devices
        for one in self._wiped.get(node, ()):  # slices go and come back one by one, some without devices
            yield from (entry for entry in one.spec.devices if entry.get("name") not in names)


def _is_complete(slices: Collection[ResourceSlice]) -> bool:
    """Whether all slices of a node's newest generation are there."""
    newest = max((one.spec.pool.generation for one in slices), default=0)
    pools = [one.spec.pool for one in slices if one.spec.pool.generation == newest]
    return bool(pools) and len(pools) >= max(pool.resource_slice_count for pool in pools)
