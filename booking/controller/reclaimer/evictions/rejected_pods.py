"""Removes pods that a kubelet rejected, so that they come back: carries out ``rejected_pod``'s decision.

Only the leader reconciles, in one thread. Memory holds when a pod was first seen and which Events were
written: after a restart the pause and the Event are repeated.
"""

from collections.abc import Callable
from typing import Final

import structlog

from booking.controller.reclaimer.evictions.backoffs import Backoffs
from booking.controller.reclaimer.evictions.comebacks import EventWriter
from booking.controller.reclaimer.evictions.failed_pod_cache import FailedPodCache, RejectedPod
from booking.controller.reclaimer.evictions.rejected_pod import (
    comeback_message,
    no_comeback_message,
    pause,
    rejection_message,
)
from booking.controller.reclaimer.evictor import EvictionCause
from cluster import event_reasons
from cluster.kube.backoff import Random
from cluster.kube.errors import ApiError, Conflict, TooManyRequests, Unreachable
from cluster.objects.pods import Pod
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

GRACE_SECONDS: Final = 1
"""Nothing of such a pod runs."""


class RejectedPods:
    """Removes rejected pods when their pause is over. Not thread-safe."""

    def __init__(
        self,
        failed: FailedPodCache,
        clock: Clock,
        events: EventWriter,
        evict: Callable[[Pod, EvictionCause], None],
        *,
        random: Random,
    ) -> None:
        """Args: evict: evicts a pod; random: spreads attempts over time."""
        self._failed = failed
        self._clock = clock
        self._events = events
        self._evict = evict
        self._pauses = Backoffs(clock, random)
        self._reported: set[str] = set()

    @property
    def uids(self) -> frozenset[str]:
        """Of the pods that are to come back."""
        return frozenset(one.pod.metadata.uid for one in self._failed.rejected if one.verdict == "comes back")

    def reconcile(self) -> None:
        """Remove the pods whose pause is over; a refused removal is tried again after a pause.

        Raises:
            Unreachable: the API server cannot be asked.
        """
        rejected = self._failed.rejected
        self._reported &= {one.pod.metadata.uid for one in rejected}
        self._pauses.forget_all_but(self._reported)
        for one in rejected:
            self._report(one)
            if one.verdict == "comes back" and self._is_due(one):
                self._send(one.pod)

    def _is_due(self, one: RejectedPod) -> bool:
        waited = self._clock.monotonic() - one.since
        return waited >= pause(one.pod) and self._pauses.is_over(one.pod.metadata.uid)

    def _report(self, one: RejectedPod) -> None:
        pod = one.pod
        if pod.metadata.uid in self._reported:
            return
        self._reported.add(pod.metadata.uid)
        if one.verdict == "comes back":
            self._events.warning(pod, event_reasons.REJECTED_BY_KUBELET, comeback_message(pod))
            log.warning("a pod has failed before it ran", pod=pod.key, reason=rejection_message(pod))
        else:
            self._events.warning(pod, event_reasons.COMEBACK_DROPPED, no_comeback_message(pod))

    def _send(self, pod: Pod) -> None:
        why = EvictionCause("refused", rejection_message(pod), GRACE_SECONDS, back="as-it-was")
        uid = pod.metadata.uid
        try:
            self._evict(pod, why)
        except Unreachable:
            raise
        except ApiError as error:
            log.warning("a rejected pod cannot come back yet", pod=pod.key, error=str(error))
            self._pauses.begin(uid)
            passes = isinstance(error, Conflict) or (isinstance(error, TooManyRequests) and error.is_overload)
            if not passes and self._pauses.should_report(uid, error.message):
                message = f"This pod cannot come back yet, and it is tried again: {error.message}"
                self._events.warning(pod, event_reasons.COMEBACK_REFUSED, message)
