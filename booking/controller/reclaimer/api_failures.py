"""Requests that the API server refused or did not answer: counted and logged; they slow down the loop."""

import structlog

from booking.controller.reclaimer.metrics import ReclaimerMetrics
from cluster.kube.errors import ApiError

log = structlog.get_logger(__name__)


class ApiFailures:
    """Shared by all parts of the reclaimer. Not thread-safe."""

    def __init__(self, metrics: ReclaimerMetrics) -> None:
        self._metrics = metrics
        self.count = 0
        """Number of failures since the start."""

    def note(self, step: str, about: str, error: ApiError) -> None:
        """Record that a step failed; the next pass tries it again."""
        self.count += 1
        self._metrics.api_failures.inc()
        log.warning("a step failed, trying again", step=step, object=about, error=str(error))
