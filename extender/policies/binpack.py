"""Binpack: fill nodes that are in use before touching empty ones, so that pods for many GPUs find room.

Promise: of two nodes, the one of whose devices a larger part is in use with the pod on it never has the lower
score; a node that the pod fills up has the highest. For a pod with shares: a node on which it needs no
further GPU is better than any on which it does; among these, the fuller its GPUs are then, the better. Most
of these scores tell GPUs apart that are nearly full then: there a share is lost that fits less well.
"""

from bisect import bisect_left
from typing import Final

from cluster.decide.available import shares_on
from cluster.decide.ledger import NodeView
from cluster.decide.placement import NoPlaceError, choose_shares
from cluster.decide.request import GpuRequest
from extender.policies import Reserved
from extender.policies.utilization import WHOLE_GPU, utilization, utilization_with
from extender.wire import MAX_SCORE

LEFT: Final = (0, 10, 30, 60, 100, 180, 300)
"""Thousandths of its shared GPUs that may be left: for the highest score, the next one, and so on."""


def binpack(request: GpuRequest, view: NodeView, reserved: Reserved) -> int:
    """The part of the devices that the pod accepts that would be in use with the pod there, 0 to 10."""
    del reserved
    if shares_on(request, view):
        return _of_shares(request, view)
    found = utilization(request, view)
    return 0 if found is None else MAX_SCORE * (found.devices - found.free) // found.devices


def _of_shares(request: GpuRequest, view: NodeView) -> int:
    """3 to 10 where GPUs that are shared already have room, by how full they are then; 0 to 2 elsewhere."""
    try:
        found = choose_shares(request, view)
    except NoPlaceError:
        return 0
    if found.opened:
        there = utilization_with(request, view, found.holdings)
        most = MAX_SCORE - len(LEFT) - 1
        return most * (there.devices - there.free) // there.devices if there else 0
    offered = sum(one.share.memory for one in view.devices if one.share and one.uuid in found.uuids)
    return MAX_SCORE - bisect_left(LEFT, WHOLE_GPU * found.left / max(1, offered))
