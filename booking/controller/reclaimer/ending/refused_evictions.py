"""Evictions that are due and that the API server, or a webhook there, refuses: told on the pod, and retried.

The pauses grow, since others must act first; the Event is written when the reason is new.
"""

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from booking.controller.reclaimer.context import ReclaimerContext
from booking.controller.reclaimer.evictions.refusals import Blocker, blocker_of
from cluster import event_reasons
from cluster.decide.exponential_backoff import exponential_backoff
from cluster.kube.errors import Conflict, StatusError
from cluster.objects.pods import Pod

AGAIN_AFTER: Final = 1.0
"""Seconds before a refused eviction is tried again, the first time; then twice as long as before."""
AGAIN_AT_MOST: Final = 60.0
"""Seconds between two attempts at most."""
REPORTED_AFTER: Final = 4
"""Conflicts in a row after which one is reported: the first are races with other writers."""


@dataclass(frozen=True, slots=True)
class _Refused:
    until: float
    """When it is tried again, monotonic."""
    times: int
    reported: Blocker | None


class RefusedEvictions:
    """The refused evictions of one kind. Not thread-safe."""

    def __init__(self, context: ReclaimerContext) -> None:
        self._context = context
        self._refused: dict[str, _Refused] = {}

    def is_pausing(self, uid: str) -> bool:
        """Whether the eviction of the pod of this uid is not to be tried now."""
        before = self._refused.get(uid)
        return before is not None and self._context.clock.monotonic() < before.until

    def forget_all_but(self, uids: Container[str]) -> None:
        """Drop what is known of other pods."""
        self._refused = {uid: one for uid, one in self._refused.items() if uid in uids}

    def note_error(self, pod: Pod, error: StatusError, *, begin: str) -> None:
        """As ``note``, for an answer of the API server."""
        before = self._refused.get(pod.metadata.uid)
        may_pass = isinstance(error, Conflict) and (before is None or before.times + 1 < REPORTED_AFTER)
        self.note(pod, blocker_of(error), begin=begin, may_pass=may_pass)

    def note(self, pod: Pod, blocker: Blocker, *, begin: str, may_pass: bool = False) -> None:
        """Pause before the next attempt, and tell the pod what is in the way.

        Args:
            pod: the pod.
            blocker: what is in the way.
            begin: how the message begins, e.g. ``An administrator has ordered this pod to go, but``; the
                blocker's clause follows.
            may_pass: whether it need not be told yet.
        """
        uid = pod.metadata.uid
        before = self._refused.get(uid)
        times, reported = (before.times + 1, before.reported) if before else (1, None)
        if not may_pass and reported != blocker:
            reported = blocker
            message = f"{begin} {blocker.why.rstrip('.')}."
            self._context.write_event(pod, event_reasons.EVICTIONS_BLOCKED, message)
        pause = exponential_backoff(times, first=AGAIN_AFTER, longest=AGAIN_AT_MOST)
        self._refused[uid] = _Refused(self._context.clock.monotonic() + pause, times, reported)
