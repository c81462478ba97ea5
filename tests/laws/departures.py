"""Pods that are taken away, as distinct from those that their users delete.

Kubernetes' condition DisruptionTarget, true at the moment at which the deletion begins, says that it is not
the user. The Eviction API writes one reason, we write others where we delete ourselves: a booking is over, a
budget is passed over, a kubelet has refused the pod. Those of others (taint manager, preemption, kubelet) are
not about us. Anybody else who evicts a booked pod breaks the law as we would.

A deletion without a reason counts as the user's, since no object says who has deleted it. Where the cluster
is played in memory that is known (``changes.Maker``): a part of ours always gives one (``deleted_by_us``).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from cluster import event_reasons, names
from cluster.objects.cover_annotations import instant_in, terminate_at
from cluster.objects.pods import Pod, is_terminating
from tests.laws.changes import Change

EVICTION_API: Final = "EvictionByEvictionAPI"

Reason = Literal["evicted", "ended", "refused"]
REASONS: Final[Mapping[str | None, Reason]] = {
    EVICTION_API: "evicted",
    event_reasons.EVICTED_FOR_BOOKING: "evicted",
    event_reasons.EVICTED_FOR_SHARE: "evicted",
    event_reasons.BOOKING_ENDED: "ended",
    event_reasons.REJECTED_BY_KUBELET: "refused",
}
"""The condition's reason -> why the pod leaves."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A pod that begins to terminate, and not by its user's deletion."""

    pod: Pod
    reason: Reason


def departure(change: Change) -> Departure | None:
    """The departure that begins with this change, None for any other change."""
    before, after = change.pods or (None, None)
    if before is None or after is None or is_terminating(before) or not is_terminating(after):
        return None
    reason = taken_for(after)
    return Departure(after, reason) if reason else None


def deleted_by_us(change: Change) -> Pod | None:
    """The pod that begins to terminate, or vanishes, by a part of ours that does not say why; else None.

    Reservation pods are nobody's but ours.
    """
    before, after = change.pods or (None, None)
    if before is None or before.metadata.annotation(names.RESERVES) or is_terminating(before):
        return None
    if not (after is None or is_terminating(after)):
        return None
    is_ours = change.maker is not None and change.maker.is_ours
    return before if is_ours and taken_for(after or before) is None else None


def is_ordered(change: Change) -> bool:
    """Whether an administrator had ordered, by name and with a reason, that this pod be evicted.

    The booking server alone may write that, and did before the write that begins the pod's termination.
    """
    before, after = change.pods or (None, None)
    text = before.metadata.annotation(names.EVICT) if before and after else None
    try:
        order = json.loads(text or "null")
    except ValueError:
        return False
    return isinstance(order, dict) and bool(order.get("by")) and bool(order.get("reason"))


def is_end_requested(change: Change, now: datetime) -> bool:
    """Whether MAIA's tools had asked that this pod be ended, which was past its ``terminate-at`` by then.

    The controller alone may write that, and did before the write that begins the pod's termination.
    """
    before, _ = change.pods or (None, None)
    requested_at = instant_in(before.metadata.annotation(names.END_REQUESTED)) if before else None
    until = terminate_at(before) if before else None
    return requested_at is not None and until is not None and until <= requested_at <= now


def taken_for(pod: Pod) -> Reason | None:
    """Why a pod is marked to be taken away, None where it is not, or by others."""
    conditions = pod.status.conditions or ()
    found = next((c for c in conditions if c.type == names.DISRUPTION_TARGET and c.status == "True"), None)
    return REASONS.get(found.reason) if found else None
