"""Spread: the emptiest node first, so that a failing node affects few pods, and each pod has room.

Promise: of two nodes, the one of whose devices a larger part is free with the pod on it never has the lower
score; a node that the pod fills up has none.
"""

from cluster.decide.ledger import NodeView
from cluster.decide.request import GpuRequest
from extender.policies import Reserved
from extender.policies.utilization import utilization
from extender.wire import MAX_SCORE


def spread(request: GpuRequest, view: NodeView, reserved: Reserved) -> int:
    """The part of the devices that the pod accepts that would be free with the pod there, 0 to 10."""
    del reserved
    found = utilization(request, view)
    return 0 if found is None else MAX_SCORE * found.free // found.devices
