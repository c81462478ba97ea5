"""Whether scheduler and extender could bind a pod now: if not, the node is not to blame (law L3). Pure.

kube-scheduler renews its Lease. If its extender does not answer, it reports that on the pod: by the reason
``SchedulerError`` and the address that it has called (kube-scheduler 1.34-1.37, ``extender.go``). An extender
that answers, but cannot bind for a reason that lies in no node, begins its message with ``names.NOT_NOW``;
one whose cache is older than the reclaimer's still finds the held devices taken. Any other rejection, and a
node that does not suit the pod, show none of these.
"""

from typing import Final

from booking.reclaimer.snapshot import Snapshot
from cluster import names
from cluster.decide import predicates
from cluster.objects.pods import Pod

SCHEDULER_UNRESPONSIVE_AFTER: Final = 10.0
"""Seconds without a renewal of kube-scheduler's Lease after which no node is blamed for an unbound pod."""
_FAILED: Final = "SchedulerError"
_ADDRESS: Final = "://"
BEHIND_AT_MOST: Final = 150.0
"""Seconds for which an extender may lag (law L6's limit for staleness); after that it counts as a
disagreement."""


def could_bind(pod: Pod, snapshot: Snapshot) -> bool:
    """Whether scheduler and extender respond; assumed unless something indicates otherwise."""
    age = snapshot.scheduler_age
    is_there = age is None or age < SCHEDULER_UNRESPONSIVE_AFTER
    return is_there and not any(_ADDRESS in message for message in _failures(pod))


def is_behind(pod: Pod) -> bool:
    """Whether the extender cannot bind the pod now for a reason that lies in no node."""
    held = predicates.HELD_NOT_FREE
    # Filter's answer ends with the code; a bind's has the message alone.
    held_but_taken = any(
        f"[{held.code}]" in message or held in message for message in _messages(pod, reason=None)
    )
    return held_but_taken or any(names.NOT_NOW in message for message in _failures(pod))


def _failures(pod: Pod) -> list[str]:
    return _messages(pod, reason=_FAILED)


def _messages(pod: Pod, *, reason: str | None) -> list[str]:
    """Why the scheduler has not placed the pod; for one reason, or for any."""
    return [
        one.message or ""
        for one in pod.status.conditions or ()
        if one.type == "PodScheduled" and reason in {None, one.reason}
    ]
