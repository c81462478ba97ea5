"""Tells booked pods what keeps others from leaving for them, and since when only budgets do.

The annotations ``names.BLOCKED`` and ``names.BUDGETS_SINCE``, and an Event for each new message. They are
true at the end of every pass; what is not true any more is removed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import structlog

from booking.controller.reclaimer.context import ReclaimerContext
from booking.controller.reclaimer.recent_requests import RecentRequests
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.wording import iso
from cluster import event_reasons, names
from cluster.kube.errors import ApiError, NotFound
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod, is_live

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Blocked:
    """What is to be written on one booked pod."""

    message: str | None
    """What keeps others from leaving for it; None: nothing does."""
    since: datetime | None
    """Since when only budgets keep it waiting; None: something else does."""

    def annotations(self) -> dict[str, str | None]:
        """As on the pod."""
        return {names.BLOCKED: self.message, names.BUDGETS_SINCE: iso(self.since) if self.since else None}


class BlockedPods:
    """Writes what has changed. Not thread-safe."""

    def __init__(self, context: ReclaimerContext) -> None:
        self._context = context
        self._recent_requests = RecentRequests(context.clock)

    def tell(self, snapshot: ReclaimerSnapshot, blocked: Mapping[str, Blocked]) -> None:
        """Bring the annotations of all pods up to date.

        Args:
            snapshot: this instant.
            blocked: uid of a booked pod that waits -> what is true of it.
        """
        marked = {
            uid
            for uid, pod in snapshot.annotated.items()
            if pod.metadata.annotation(names.BLOCKED) or pod.metadata.annotation(names.BUDGETS_SINCE)
        }
        for uid in sorted(marked | blocked.keys()):
            pod = snapshot.pods.get(uid)
            if pod is not None and is_live(pod):
                self._tell(pod, blocked.get(uid, Blocked(None, None)))

    def _tell(self, pod: Pod, blocked: Blocked) -> None:
        meta, wanted = pod.metadata, blocked.annotations()
        if all((meta.annotation(key) or None) == text for key, text in wanted.items()):
            return
        if not self._recent_requests.is_due((meta.uid, blocked)):
            return
        try:
            body = {"metadata": {"uid": meta.uid, "annotations": wanted}}
            self._context.kube.patch(PODS, meta.name, body, namespace=meta.namespace)
        except NotFound:
            return
        except ApiError as error:
            self._context.failures.note("blockers", pod.key, error)
            return
        if blocked.message and blocked.message != meta.annotation(names.BLOCKED):
            self._context.write_event(pod, event_reasons.EVICTIONS_BLOCKED, blocked.message)
        log.info("blockers of a booked pod", pod=pod.key, message=blocked.message)
