"""The last look before somebody loses work: at the booked pod, and at everything afresh (laws L2, L3)."""

from collections.abc import Callable

from booking.reclaimer.context import ReclaimerContext
from booking.reclaimer.holds.hold_status import hold_status
from cluster import names
from cluster.kube.errors import NotFound
from cluster.kube.resources import PODS
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod, is_live


class Revalidation:
    """Whether a hold is right at this moment; one look serves all of its victims until it is too old.

    A process that does not lead any more, or whose picture is behind, gets no yes. A picture that shows the
    hold knows of everything that befell pods before the hold was written: one that does not yet is behind.
    """

    def __init__(self, context: ReclaimerContext, pod: Pod, hold: Hold, *, read: float | None = None) -> None:
        """Args: pod: with the hold on it; read: when the API server has said so, None for one of a watch."""
        self._context = context
        self._pod = pod
        self._hold = hold
        self._read = read
        self._looked: float | None = None
        self._asked: Callable[[], float] | None = None
        self.said_yes: float | None = None
        """When it last did: what is asked for then is sent at that moment. Monotonic."""

    def begin(self) -> None:
        """Begin to read the Bookings, aside: ``stands`` is asked in a moment."""
        if self._asked is None:
            self._asked = self._context.executor(self._read_bookings)

    def stands(self) -> bool:
        """Whether the hold is still right: where the look at it is too old by now, there is another one.

        So a slow API server, of which many things are asked in between, delays nobody for ever.

        Raises:
            ApiError: the API server could not be asked.
        """
        if self._looked is None or not self._context.is_fresh(self._looked):
            self._looked = self._look()
        if self._looked is None or not self._context.is_fresh(self._looked):
            return False
        self.said_yes = self._context.clock.monotonic()
        return True

    def _look(self) -> float | None:
        """The moment as of which all is right; None where it is not."""
        if not self._is_seen():
            return None  # without asking: our watch brings it in a moment
        self.begin()
        asked, self._asked = self._asked, None
        found = self._stored()
        if found is None:
            return None
        stored, looked = found
        known = asked() if asked else self._read_bookings()
        if not self._context.is_fresh(known):
            known = self._read_bookings()
        standing = hold_status(stored, self._hold, self._context.instant())
        return min(looked, known) if standing.problem is None and self._is_seen() else None

    def _read_bookings(self) -> float:
        """Have the Bookings in our picture as the API server has them; when that was asked."""
        begun = self._context.clock.monotonic()
        self._context.read_bookings()
        return begun

    def _is_seen(self) -> bool:
        """Whether our own picture shows that it waits for just this hold."""
        seen = self._context.seen(self._pod.metadata.uid)
        return seen is not None and self._waits(seen)

    def _stored(self) -> tuple[Pod, float] | None:
        """The booked pod as the API server has it, and when; None where it is another, or bound."""
        meta = self._pod.metadata
        if self._read is not None and self._context.is_fresh(self._read):
            return self._pod, self._read
        begun = self._context.clock.monotonic()
        try:
            stored = self._context.kube.get(PODS, meta.name, namespace=meta.namespace)
        except NotFound:
            return None
        same = stored.metadata.uid == meta.uid and self._waits(stored)
        return (stored, self._context.clock.monotonic()) if same and self._context.is_fresh(begun) else None

    def _waits(self, pod: Pod) -> bool:
        """Whether it waits for just this hold."""
        text = self._pod.metadata.annotation(names.HOLD)
        return pod.metadata.annotation(names.HOLD) == text and not pod.spec.node_name and is_live(pod)
