"""How much of a device a claim has: all of it, or a share in MiB of its memory (consumable capacity). Pure.

On a device that several claims may have, each allocation consumes capacity. A request that names no amount of
memory consumes all of it: then the claim has the device alone, as on any other device.
Source: Kubernetes 1.37 (resource/v1/types.go).
"""

from collections.abc import Mapping
from math import ceil
from typing import Any, Final

from cluster.objects.claims import Allocated, ExactRequest, ResourceClaim
from cluster.objects.quantity import QuantityError, parse_amount

MEMORY: Final = "memory"
"""The capacity, in ResourceSlices, requests and allocations."""
MIB: Final = 2**20
LEAST: Final = 256
"""MiB: an allocation consumes no less, as our slices say (``requestPolicy``)."""


def shared_memory(claim: ResourceClaim, one: Allocated) -> int:
    """MiB that a claim has of a device that is allocated to it, rounded up; 0 for all of the device.

    Args:
        claim: the claim.
        one: of its results; of a claim that is kept without the name of the request what it consumes counts.
    """
    amount = (one.consumed_capacity or {}).get(MEMORY)
    request = _request(claim, one.request)
    if amount is None or (request is not None and not _asks_for_memory(request)):
        return 0
    try:
        return ceil(parse_amount(str(amount)) / MIB)
    except QuantityError:
        return 0


def requested_memory(capacity: Mapping[str, Any] | None) -> int:
    """MiB of each device that a request asks for, as they are consumed; 0 for one that names no amount."""
    amount = ((capacity or {}).get("requests") or {}).get(MEMORY)
    try:
        return 0 if amount is None else max(LEAST, ceil(parse_amount(str(amount)) / MIB))
    except QuantityError:
        return 0


def _request(claim: ResourceClaim, name: str) -> ExactRequest | None:
    """The request of a result; of one with alternatives, the alternative."""
    for request in claim.spec.devices.requests:
        if request.exactly and request.name == name:
            return request.exactly
        for way in request.first_available:
            if f"{request.name}/{way.name}" == name:
                return way
    return None


def _asks_for_memory(request: ExactRequest) -> bool:
    return MEMORY in ((request.capacity or {}).get("requests") or {})
