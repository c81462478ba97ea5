"""Which numbered GPUs waiting pods with shares need, and which others must be opened for them. Pure.

The pods are placed one after the other, as the extender would do it: on a GPU that is open or about to be,
else on a free one, which is then to be opened. What one is given the next one does not get.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from cluster.decide.ledger import NodeView
from cluster.decide.ledger.amounts import Room
from cluster.decide.ledger.liveness import AgentState
from cluster.decide.predicates import rejection
from cluster.decide.request import GpuRequest
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
    reserved: set[str] = set()
    free: dict[str, str] = {}
    for pod, request in waiting:
        others = {name: seen for name, seen in views.items() if name not in nodes}
        if not nodes or _is_placed(pod, request, others, suits):
            continue
        placed = [
            (found, name)
            for name, node in nodes.items()
            if (found := node.place(request)) and suits(pod, name)
        ]
        if not placed:
            continue
        known = {*free, *unplaced}
        best, name = min(placed, key=lambda one: (_to_open(one[0], nodes[one[1]].view, known), one[1]))
        nodes[name].take(best)
        view = nodes[name].view
        reserved |= best.uuids & view.reserved
        free |= {uuid: name for uuid in best.uuids - view.reserved if view.is_unheld(uuid)}
    return Needed(frozenset(reserved), free)


def _to_open(found: Shared, view: NodeView, known: Collection[str]) -> int:
    """The number of GPUs for which a reservation pod would have to be made."""
    return sum(uuid not in view.reserved and uuid not in known for uuid in found.uuids)


def _is_placed(pod: Pod, request: GpuRequest, views: Views, suits: Suits) -> bool:
    """Whether one of these nodes takes the pod as it is."""
    return any(
        rejection(request, view, agent) is None and suits(pod, name) for name, (view, agent) in views.items()
    )
