"""Booked-reserve: keep pods that may be evicted off the devices that running bookings will need.

A booking runs, its owner's pods have not come yet, or not all of them: whoever sits on the devices that are
planned for them is evicted when they come. So the pod goes where it can stay.

Promise: a node where the pod takes nothing that a running booking has planned and not in use is better than
any where it does; among the former it is binpack; among the latter the one is better where it takes less.
"""

from typing import Final

from cluster.decide.available import matching_count
from cluster.decide.ledger import NodeView
from cluster.decide.request import GpuRequest
from extender.policies import Reserved
from extender.policies.binpack import binpack
from extender.wire import MAX_SCORE

HALF: Final = MAX_SCORE // 2


def booked_reserve(request: GpuRequest, view: NodeView, reserved: Reserved) -> int:
    """5 to 10 where the pod is in nobody's way, 4 to 0 where it is."""
    taken = sum(
        max(0, need - _spare(request, view, resource, reserved)) for resource, need in request.demand.items()
    )
    if taken:
        return max(0, HALF - taken)
    return HALF + binpack(request, view, reserved) * (MAX_SCORE - HALF) // MAX_SCORE


def _spare(request: GpuRequest, view: NodeView, resource: str, reserved: Reserved) -> int:
    """How many devices the pod could take, and what is planned would still find others."""
    free = view.free_by_model.get(resource, {}).items()
    spare = [
        min(matching_count({model: found}, request), max(0, len(found) - reserved.get(model, 0)))
        for model, found in free
    ]
    most = sum(spare) if request.mixes else max(spare, default=0)
    # A device held by a pod of which nobody has said which it is may be any of the free ones.
    return max(0, most - view.unknown.get(resource, 0))
