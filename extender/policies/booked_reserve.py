"""Booked-reserve: keep pods that may be evicted off the devices that running bookings will need.

While a booking runs and its owner has not created all pods yet, a pod on the devices planned for them is
evicted when they are created. So the pod goes where it can stay.

Promise: a node where the pod takes no device that a running booking has planned but does not use is better
than any where it does; among the former it is binpack; among the latter, fewer such devices are better.
"""

from typing import Final

from cluster.decide.available import matching_count, shares_on
from cluster.decide.ledger import NodeView
from cluster.decide.placement import NoPlaceError, choose_shares
from cluster.decide.request import GpuRequest
from extender.policies import Reserved
from extender.policies.binpack import binpack
from extender.wire import MAX_SCORE

HALF: Final = MAX_SCORE // 2


def booked_reserve(request: GpuRequest, view: NodeView, reserved: Reserved) -> int:
    """5 to 10 if the pod takes no planned device there, 4 to 0 if it does."""
    taken = sum(
        max(0, need - _spare(request, view, resource, reserved))
        for resource, need in _needed(request, view).items()
    )
    if taken:
        return max(0, HALF - taken)
    return HALF + binpack(request, view, reserved) * (MAX_SCORE - HALF) // MAX_SCORE


def _needed(request: GpuRequest, view: NodeView) -> dict[str, int]:
    """Resource -> devices that the pod takes: of a pod with shares, the GPUs that nobody shares yet."""
    share = shares_on(request, view)
    if share is None:
        return request.demand
    try:
        return {request.resource: len(choose_shares(request, view).opened)}
    except NoPlaceError:
        return {request.resource: share.width}


def _spare(request: GpuRequest, view: NodeView, resource: str, reserved: Reserved) -> int:
    """How many devices the pod could take while the planned ones would still find others."""
    free = view.free_by_model.get(resource, {}).items()
    spare = [
        min(matching_count({model: found}, request), max(0, len(found) - reserved.get(model, 0)))
        for model, found in free
    ]
    most = sum(spare) if request.mixes else max(spare, default=0)
    # A held device that has not been identified may be any of the free ones.
    return max(0, most - view.unknown.get(resource, 0))
