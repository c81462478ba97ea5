"""Binpack: fill nodes that are in use before touching empty ones, so that pods for many GPUs find room.

Promise: of two nodes, the one of whose devices a larger part is in use with the pod on it never has the lower
score; a node that the pod fills up has the highest.
"""

from cluster.decide.ledger import NodeView
from cluster.decide.request import GpuRequest
from extender.policies import Reserved
from extender.policies.utilization import utilization
from extender.wire import MAX_SCORE


def binpack(request: GpuRequest, view: NodeView, reserved: Reserved) -> int:
    """The part of the devices that the pod accepts that would be in use with the pod there, 0 to 10."""
    del reserved
    found = utilization(request, view)
    return 0 if found is None else MAX_SCORE * (found.devices - found.free) // found.devices
