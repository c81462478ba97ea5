"""How many of the devices that a pod accepts on a node are in use. For ``binpack`` and ``spread``."""

from dataclasses import dataclass

from cluster.decide.available import matching_count
from cluster.decide.ledger import NodeView
from cluster.decide.request import GpuRequest


@dataclass(frozen=True, slots=True)
class Utilization:
    """Devices of a node that the pod accepts."""

    devices: int
    """Number of devices, including unhealthy ones."""
    free: int
    """Number of free devices with the pod on the node; held devices that are unknown are subtracted."""


def utilization(request: GpuRequest, view: NodeView) -> Utilization | None:
    """The node's utilization with the pod on it; None if it has no device that the pod accepts."""
    devices = free = 0
    for resource in request.demand:
        devices += matching_count(view.all_by_model.get(resource, {}), request)
        here = matching_count(view.free_by_model.get(resource, {}), request)
        free += max(0, here - view.unknown.get(resource, 0))
    if not devices:
        return None
    return Utilization(devices=devices, free=max(0, free - sum(request.demand.values())))
