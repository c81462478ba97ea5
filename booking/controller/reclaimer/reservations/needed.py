"""Which numbered GPUs waiting pods with shares need, and which others must be opened for them. Pure.

The pods are placed one after the other, as the extender would do it: on a GPU that is open or about to be,
else on a free one, which is then to be opened. What one is given the next one does not get.
"""

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from cluster.decide.ledger import NodeView
from cluster.decide.ledger.amounts import Room
from cluster.decide.ledger.liveness import AgentState
from cluster.decide.predicates import rejection
from cluster.decide.request import GpuRequest, RequestKey
from cluster.decide.shares import Shared, place, rooms, with_opened
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod

Views = Mapping[str, tuple[NodeView, AgentState]]
Suits = Callable[[Pod, str], bool]
"""Whether kube-scheduler would place a pod on a node, and bookings allow it: GPUs aside."""


@dataclass(frozen=True, slots=True)
class Needed:
    """Numbered GPUs that waiting pods need."""

    reserved: frozenset[str] = frozenset()
    """Of those that reservation pods have."""
    free: Mapping[str, str] = field(default_factory=dict)
    """Free ones that are to be opened -> their nodes."""


@dataclass(slots=True)
class _Node:
    """A node while pods are placed on it."""

    view: NodeView
    unplaced: Collection[str]
    """Free GPUs for which there is a reservation pod that is not placed yet."""
    left: dict[str, Room] = field(default_factory=dict)
    """UUID -> what earlier pods leave of it; a GPU that is missing is as in the view."""

    def place(self, request: GpuRequest) -> Shared | None:
        """The place of a pod, with GPUs that are about to be opened and free ones."""
        soon = {model: tuple(self._soon(found)) for model, found in self._reserved().items()}
        free = {model: tuple(map(self._free, found)) for model, found in self.view.openable.rooms.items()}
        found = with_opened(with_opened(rooms(request, self.view), soon), free)
        takes = request.selector.takes
        return place(
            request,
            {
                model: tuple((one, self.left.get(one.uuid, room)) for one, room in here if takes(one))
                for model, here in found.items()
            },
        )

    def take(self, placed: Shared) -> None:
        """A pod is placed there."""
        devices = {device.uuid: device for device in self.view.devices}
        for part in placed.holdings:
            before = self.left.get(part.device) or self._room(devices[part.device])
            self.left[part.device] = before.less(part)

    def _reserved(self) -> dict[str, list[Device]]:
        """Model -> GPUs of reservation pods that are not open yet."""
        found: dict[str, list[Device]] = {}
        for device in self.view.devices:
            here = device.uuid in self.view.reserved and device.uuid in self.view.closed
            if here and device.is_healthy and device.uuid not in self.view.on_hold:
                found.setdefault(device.model, []).append(device)
        return found

    def _soon(self, devices: Iterable[Device]) -> Iterable[tuple[Device, Room]]:
        for device in devices:
            opened = self._opened(device)
            yield opened, self.view.room(opened)

    def _free(self, one: tuple[Device, Room]) -> tuple[Device, Room]:
        """A free GPU; it is rather taken if it is to be opened anyway."""
        device, room = one
        return device, replace(room, is_whole=device.uuid not in self.unplaced)

    def _opened(self, device: Device) -> Device:
        return msgspec.structs.replace(device, share=self.view.closed.get(device.uuid, device.share))

    def _room(self, device: Device) -> Room:
        return self.view.room(self._opened(device))


def needed(
    waiting: Iterable[tuple[Pod, GpuRequest]],
    views: Views,
    *,
    suits: Suits,
    unplaced: Collection[str] = (),
    barred: Collection[str] = (),
) -> Needed:
    """The numbered GPUs that waiting pods need.

    Args:
        waiting: unbound pods with shares, the most urgent first.
        views: the nodes.
        suits: see ``Suits``.
        unplaced: GPUs for which there are reservation pods that are not placed yet.
        barred: nodes where GPUs were opened in vain.
    """
    nodes = {
        name: _Node(view, unplaced)
        for name, (view, agent) in sorted(views.items())
        if view.opens and agent == "alive" and name not in barred and not view.fault
    }
    others = {name: seen for name, seen in views.items() if name not in nodes}
    places = _Places(nodes, others, unplaced)
    for pod, request in waiting if nodes else ():
        kind = places.of(request)
        if any(suits(pod, name) for name in kind.elsewhere):
            continue
        name = next((name for _, name in kind.order if suits(pod, name)), None)
        if name is not None:
            places.take(name, kind.found[name][1])
    return Needed(frozenset(places.reserved), places.free)


Ranked = tuple[int, Shared]
"""For how many of its GPUs a reservation pod would have to be made, and a place."""


@dataclass(slots=True)
class _Kind:
    """Where pods that ask for the same would be placed."""

    elsewhere: tuple[str, ...]
    """Other nodes, which take such a pod as it is."""
    found: dict[str, Ranked] = field(default_factory=dict)
    order: list[tuple[int, str]] = field(default_factory=list)
    """The same nodes, the best first."""
    stale: set[str] = field(default_factory=set)
    """Nodes where something was placed since they were looked at."""


class _Places:
    """Places for waiting pods. A node is looked at once for a kind of request, and after each pod there."""

    def __init__(self, nodes: Mapping[str, _Node], others: Views, unplaced: Collection[str]) -> None:
        self._nodes = nodes
        self._others = others
        self._unplaced = unplaced
        views = [*(view for view, _ in others.values()), *(node.view for node in nodes.values())]
        self._nominated = frozenset(one.uid for view in views for one in view.nominated)
        self._kinds: dict[RequestKey, _Kind] = {}
        self.reserved: set[str] = set()
        self.free: dict[str, str] = {}

    def of(self, request: GpuRequest) -> _Kind:
        """The places for such a request."""
        key = (*request.key, request.uid) if request.uid in self._nominated else request.key
        if key not in self._kinds:
            takes = (n for n, seen in self._others.items() if rejection(request, *seen) is None)
            self._kinds[key] = _Kind(tuple(takes), stale=set(self._nodes))
        kind = self._kinds[key]
        for name in sorted(kind.stale):
            if before := kind.found.pop(name, None):
                kind.order.remove((before[0], name))
            if place := self._nodes[name].place(request):
                kind.found[name] = ranked = self._to_open(place, self._nodes[name].view), place
                insort(kind.order, (ranked[0], name))
        kind.stale.clear()
        return kind

    def take(self, name: str, place: Shared) -> None:
        """A pod is placed on a node."""
        node = self._nodes[name]
        node.take(place)
        self.reserved |= place.uuids & node.view.reserved
        new = place.uuids - node.view.reserved
        self.free |= {uuid: name for uuid in new if node.view.is_unheld(uuid)}
        for kind in self._kinds.values():
            kind.stale.add(name)

    def _to_open(self, found: Shared, view: NodeView) -> int:
        """The number of GPUs for which a reservation pod would have to be made."""
        known = {*self.free, *self._unplaced}
        return sum(uuid not in view.reserved and uuid not in known for uuid in found.uuids)
