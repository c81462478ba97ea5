"""Ending expired pods on a request from outside, by name: MAIA's tools (``booking.controller.maia``).

The request is an annotation on the pod, so any leader finds it. It is valid for a pod that no booking covers
and whose ``terminate-at`` has passed: it cannot end another user's booked pod (laws L2 and L7), and ends
nothing while the Booking objects may be outdated (law L6).
"""

from functools import partial
from typing import Final

import structlog

from booking.controller.maia.expired import expired
from booking.controller.reclaimer.context import ReclaimerContext
from booking.controller.reclaimer.ending.booking_ends import is_mirror_fresh
from booking.controller.reclaimer.evictor import EvictionCause, TooLateError
from booking.controller.reclaimer.recent_requests import RecentRequests
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.eviction.settings import EvictionSettings
from cluster import names
from cluster.kube.errors import ApiError
from cluster.objects.pods import Pod

log = structlog.get_logger(__name__)

MESSAGE: Final = "This pod was past its terminate-at, and an administrator has ended it."


def requested_to_end(snapshot: ReclaimerSnapshot) -> list[Pod]:
    """Expired pods with a request to end them; none while the mirror's Lease is stale."""
    if not is_mirror_fresh(snapshot):
        return []
    found = expired(snapshot.annotated.values(), snapshot.cover, snapshot.now)
    return [pod for pod in found if pod.metadata.annotation(names.END_REQUESTED)]


class MaiaRequests:
    """Ends the requested pods. Not thread-safe."""

    def __init__(self, context: ReclaimerContext, terms: EvictionSettings) -> None:
        self._context = context
        self._terms = terms
        self._recent_requests = RecentRequests(context.clock)

    def reconcile(self, snapshot: ReclaimerSnapshot) -> None:
        """Take one step for each request; a step that fails is tried again in the next pass."""
        if not self._terms.maia:
            return
        for pod in requested_to_end(snapshot):
            if self._recent_requests.is_due(pod.metadata.uid):
                try:
                    self._end(pod)
                except ApiError as error:
                    self._context.failures.note("end of an expired pod", pod.key, error)

    def _end(self, pod: Pod) -> None:
        why = EvictionCause("ended", MESSAGE, self._terms.longest_grace_seconds)
        try:
            self._context.evictor.evict(
                pod, why, is_valid=partial(self._is_still_requested, pod.metadata.uid)
            )
        except TooLateError as error:
            log.info("a pod is not ended after all", pod=pod.key, reason=str(error))

    def _is_still_requested(self, uid: str) -> bool:
        begun = self._context.clock.monotonic()
        again = {pod.metadata.uid for pod in requested_to_end(self._context.snapshot())}
        return uid in again and self._context.is_fresh(begun)
