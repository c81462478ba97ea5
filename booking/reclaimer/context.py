"""What the reclaimer's state machines act through; made once by ``reclaimer``."""

from collections.abc import Callable
from dataclasses import dataclass

from booking.reclaimer.api_failures import ApiFailures
from booking.reclaimer.evictor import DECIDED_WITHIN, Evictor
from booking.reclaimer.executor import Executor
from booking.reclaimer.metrics import ReclaimerMetrics
from booking.reclaimer.snapshot import Snapshot
from cluster.kube.interface import Kube
from cluster.objects.pods import Pod
from cluster.process.clock import Clock

WriteEvent = Callable[[Pod, str, str], None]
"""``(pod, reason, sentence)``: write an Event on the pod; never raises."""


@dataclass(frozen=True)
class ReclaimerContext:
    """API server, clock, departures, Events, metrics, and the newest picture."""

    kube: Kube
    clock: Clock
    leaving: Evictor
    write_event: WriteEvent
    metrics: ReclaimerMetrics
    failures: ApiFailures
    executor: Executor
    """Asks one thing while another is asked."""
    read_bookings: Callable[[], None]
    """Read every Booking from the API server into our picture; raises ``ApiError``. From any thread."""
    instant: Callable[[], Snapshot]
    """The cluster as our own picture has it now; asks nobody."""
    seen: Callable[[str], Pod | None]
    """A pod, by its uid, as our own picture has it at the moment of the call; asks nobody."""
    awaited: Callable[[str], bool]
    """Whether a booking of its owner's would cover a running pod, by its uid, on another node."""
    may_act: Callable[[], bool]
    """Whether this process leads, and knows enough, at the moment of the call."""

    def snapshot(self) -> Snapshot:
        """The cluster as it is now, with the Bookings as the API server has them.

        Raises:
            ApiError: it could not be asked.
        """
        self.read_bookings()
        return self.instant()

    def is_fresh(self, looked: float) -> bool:
        """Whether what was decided on a look at this monotonic instant may still be done."""
        return self.clock.monotonic() - looked <= DECIDED_WITHIN and self.may_act()
