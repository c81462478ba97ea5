"""An administrator's order to evict a pod, as the booking server writes it on the pod: ``names.EVICT``.

JSON: ``{"by": "alice", "reason": "the rack is on fire", "at": "2026-11-27T16:00:00Z"}``.
"""

import msgspec

from cluster import names
from cluster.objects.meta import UNREADABLE, Instant, Versioned, ready
from cluster.objects.pods import Pod


@ready
class EvictOrder(Versioned, frozen=True, kw_only=True):
    """Who ordered the eviction of a pod, and why."""

    by: str
    """User id."""
    reason: str
    at: Instant


def encode_order(order: EvictOrder) -> str:
    """The text of the annotation."""
    return msgspec.json.encode(order).decode()


def order_of(pod: Pod) -> EvictOrder | None:
    """The order on a pod; None if there is none, or it cannot be read."""
    text = pod.metadata.annotation(names.EVICT)
    try:
        return None if text is None else msgspec.json.decode(text, type=EvictOrder)
    except UNREADABLE:
        return None
