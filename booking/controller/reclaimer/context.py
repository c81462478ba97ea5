"""The dependencies of the reclaimer's state machines; built once by ``reclaimer``."""

from collections.abc import Callable
from dataclasses import dataclass

from booking.controller.reclaimer.api_failures import ApiFailures
from booking.controller.reclaimer.evictor import DECIDED_WITHIN, Evictor
from booking.controller.reclaimer.executor import Executor
from booking.controller.reclaimer.metrics import ReclaimerMetrics
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from cluster.kube.interface import Kube
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod
from cluster.process.clock import Clock

WriteEvent = Callable[[Pod, str, str], None]
"""``(pod, reason, message)``: write an Event on the pod; never raises."""


@dataclass(frozen=True)
class ReclaimerContext:
    """API server, clock, evictor, Events, metrics, and the latest snapshot of the cluster."""

    kube: Kube
    clock: Clock
    evictor: Evictor
    write_event: WriteEvent
    metrics: ReclaimerMetrics
    failures: ApiFailures
    executor: Executor
    """Runs requests to the API server concurrently."""
    read_bookings: Callable[[], None]
    """Read every Booking from the API server into the cache; raises ``ApiError``. Thread-safe."""
    instant: Callable[[], ReclaimerSnapshot]
    """The cluster as the cache has it now; sends no request."""
    seen: Callable[[str], Pod | None]
    """A pod, by its uid, as the cache has it at the moment of the call; sends no request."""
    awaited: Callable[[str], bool]
    """Whether a booking of the owner would cover a running pod, by its uid, on another node."""
    turn_problem: Callable[[Pod, Hold, ReclaimerSnapshot], str | None]
    """Why fair shares do not allow that devices of others are kept for a pod any more; None if they do."""
    taken: Callable[[Pod], None]
    """A pod was evicted for the share of another user."""
    may_act: Callable[[], bool]
    """Whether this process leads and its cache can be trusted, at the moment of the call."""

    def snapshot(self) -> ReclaimerSnapshot:
        """The cluster as it is now, with the Bookings read from the API server.

        Raises:
            ApiError: the API server could not be reached, or refused.
        """
        self.read_bookings()
        return self.instant()

    def is_fresh(self, seen_at: float) -> bool:
        """Whether a decision based on a snapshot of this monotonic instant may still be carried out."""
        return self.clock.monotonic() - seen_at <= DECIDED_WITHIN and self.may_act()
