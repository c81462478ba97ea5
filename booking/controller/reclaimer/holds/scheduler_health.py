"""Whether scheduler and extender could bind a pod now: if not, the node is not to blame (law L3). Pure.

Three objects tell, by codes and times alone (ADR 77): kube-scheduler's Lease; the reason of its condition on
the pod, ``SchedulerError`` where an attempt ended with an error and not with a verdict on nodes; and the
extender's Lease, which is renewed while it answers and leads, with its last verdicts on pods with a hold.
"""

from typing import Final

from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from cluster.objects.hold_verdicts import BLAMING
from cluster.objects.pods import Pod, has_scheduler_error

SCHEDULER_UNRESPONSIVE_AFTER: Final = 10.0
"""Seconds without a renewal of kube-scheduler's Lease after which no node is blamed for an unbound pod."""
EXTENDER_UNRESPONSIVE_AFTER: Final = 8.0
"""The same of the extender's Lease, which it renews every two seconds: below ``BOUND_WITHIN``, so that an
extender that ends when the last victim leaves is noticed before the node is blamed."""
BEHIND_AT_MOST: Final = 150.0
"""Seconds for which an extender may lag (law L6's limit for staleness); after that it counts as a
disagreement."""


def could_bind(pod: Pod, snapshot: ReclaimerSnapshot) -> bool:
    """Whether scheduler and extender respond, to each other too; assumed unless something shows otherwise.

    An attempt that ended with an error of which the extender knows nothing has not reached it.
    """
    has_reached_extender = not has_scheduler_error(pod) or _verdict(pod, snapshot) is not None
    return (
        has_reached_extender
        and _responds(snapshot.scheduler_age, SCHEDULER_UNRESPONSIVE_AFTER)
        and _responds(snapshot.extender_age, EXTENDER_UNRESPONSIVE_AFTER)
    )


def is_behind(pod: Pod, snapshot: ReclaimerSnapshot) -> bool:
    """Whether the extender cannot bind the pod now for a reason that lies in no node.

    Unknown if it keeps no Lease, as one of an earlier version during an upgrade: that counts the same.
    """
    verdict = _verdict(pod, snapshot)
    return snapshot.extender_age is None or (verdict is not None and verdict not in BLAMING)


def _responds(age: float | None, limit: float) -> bool:
    return age is None or age < limit


def _verdict(pod: Pod, snapshot: ReclaimerSnapshot) -> str | None:
    return snapshot.hold_verdicts.get(pod.metadata.uid)
