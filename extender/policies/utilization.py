"""How many of the devices that a pod accepts on a node are in use. For ``binpack`` and ``spread``.

For a pod with shares, in thousandths of a GPU: of a device as much is in use as of its memory or its compute,
whichever is more.
"""

from dataclasses import dataclass, replace
from typing import Final

from cluster.decide.available import matching, matching_count, shares_on
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.amounts import ALL_COMPUTE, Holding
from cluster.decide.placement import NoPlaceError, choose_shares
from cluster.decide.request import GpuRequest
from cluster.objects.inventory import Device

WHOLE_GPU: Final = 1000
"""Thousandths."""


@dataclass(frozen=True, slots=True)
class Utilization:
    """Devices of a node that the pod accepts, or thousandths of them."""

    devices: int
    """Number of devices, including unhealthy ones."""
    free: int
    """Number of free devices with the pod on the node; held devices that are unknown are subtracted."""


def utilization(request: GpuRequest, view: NodeView) -> Utilization | None:
    """The node's utilization with the pod on it; None if it has no device that the pod accepts."""
    if shares_on(request, view):
        return _of_shares(request, view)
    devices = free = 0
    for resource in request.demand:
        devices += matching_count(view.all_by_model.get(resource, {}), request)
        here = matching_count(view.free_by_model.get(resource, {}), request)
        free += max(0, here - view.unknown.get(resource, 0))
    if not devices:
        return None
    return Utilization(devices=devices, free=max(0, free - sum(request.demand.values())))


def _of_shares(request: GpuRequest, view: NodeView) -> Utilization | None:
    try:
        return utilization_with(request, view, choose_shares(request, view).holdings)
    except NoPlaceError:
        none = utilization_with(request, view, ())
        return replace(none, free=0) if none else None


def utilization_with(request: GpuRequest, view: NodeView, parts: tuple[Holding, ...]) -> Utilization | None:
    """The node's utilization with these shares of the pod on it; None if it offers the pod none."""
    devices = matching(view.all_by_model.get(request.resource, {}), request.selector)
    shareable = [one for found in devices.values() for one in found if one.share and one.share.memory]
    if not shareable:
        return None
    there = view.holding(parts)
    free = sum(_free(one, there) for one in shareable if one.is_healthy)
    unknown = WHOLE_GPU * view.unknown.get(request.resource, 0)
    return Utilization(devices=WHOLE_GPU * len(shareable), free=max(0, free - unknown))


def _free(device: Device, view: NodeView) -> int:
    """Thousandths of a device that are free."""
    room = view.room(device)
    offered = device.share.memory if device.share else 0
    return min(WHOLE_GPU * room.memory // max(1, offered), WHOLE_GPU * room.compute // ALL_COMPUTE)
