"""How much of what a pod may be given on a node is in use: the input of ``binpack`` and ``spread``."""

from dataclasses import dataclass

from cluster.decide.available import matching_count
from cluster.decide.ledger import NodeView
from cluster.decide.request import GpuRequest


@dataclass(frozen=True, slots=True)
class Utilization:
    """Devices of a node that the pod accepts."""

    devices: int
    """Number of devices, unhealthy ones among them."""
    free: int
    """With the pod on the node. Pods' devices that have not been identified may be any of them."""


def utilization(request: GpuRequest, view: NodeView) -> Utilization | None:
    """The node's utilization with the pod on it; None where it has nothing that the pod accepts."""
    devices = free = 0
    for resource in request.demand:
        devices += matching_count(view.all_by_model.get(resource, {}), request)
        here = matching_count(view.free_by_model.get(resource, {}), request)
        free += max(0, here - view.unknown.get(resource, 0))
    if not devices:
        return None
    return Utilization(devices=devices, free=max(0, free - sum(request.demand.values())))
