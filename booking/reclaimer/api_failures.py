"""What the API server refused or did not answer: counted, logged, and a reason to slow down."""

import structlog

from booking.reclaimer.metrics import ReclaimerMetrics
from cluster.kube.errors import ApiError

log = structlog.get_logger(__name__)


class ApiFailures:
    """One for all parts of the reclaimer. For one thread."""

    def __init__(self, metrics: ReclaimerMetrics) -> None:
        self._metrics = metrics
        self.count = 0
        """Grows with each."""

    def note(self, step: str, about: str, error: ApiError) -> None:
        """A step failed; the next pass tries it again."""
        self.count += 1
        self._metrics.api_failures.inc()
        log.warning("a step failed, trying again", step=step, object=about, error=str(error))
