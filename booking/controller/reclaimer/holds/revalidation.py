"""The last check before a pod loses work: the booked pod, and everything else again (laws L2, L3)."""

from collections.abc import Callable

from booking.controller.reclaimer.context import ReclaimerContext
from booking.controller.reclaimer.holds.hold_status import hold_status
from cluster import names
from cluster.kube.errors import NotFound
from cluster.kube.resources import PODS
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod, is_live


class Revalidation:
    """Whether a hold is valid at this moment; one check serves all of its victims until it is too old.

    It fails for a process that does not lead any more, or whose cache lags. A cache that shows the hold has
    every change of pods from before the hold was written; one that does not show it yet lags.
    """

    def __init__(self, context: ReclaimerContext, pod: Pod, hold: Hold, *, read: float | None = None) -> None:
        """Args: pod: with the hold on it; read: when the API server answered with it; None: by a watch."""
        self._context = context
        self._pod = pod
        self._hold = hold
        self._read = read
        self._checked_at: float | None = None
        self._read_ahead: Callable[[], float] | None = None
        self.valid_at: float | None = None
        """When the hold was last found valid, monotonic: what is asked for then is sent at that moment."""

    def begin(self) -> None:
        """Start to read the Bookings in the background: ``is_valid`` is about to be called."""
        if self._read_ahead is None:
            self._read_ahead = self._context.executor(self._read_bookings)

    def is_valid(self) -> bool:
        """Whether the hold is still valid; a check that is too old by now is repeated.

        So a slow API server, with many requests in between, does not block an eviction indefinitely.

        Raises:
            ApiError: the API server could not be reached.
        """
        if self._checked_at is None or not self._context.is_fresh(self._checked_at):
            self._checked_at = self._check()
        if self._checked_at is None or not self._context.is_fresh(self._checked_at):
            return False
        self.valid_at = self._context.clock.monotonic()
        return True

    def _check(self) -> float | None:
        """The monotonic instant as of which the hold is valid; None if it is not."""
        if not self.is_seen():
            return None  # without a request: our watch delivers it in a moment
        self.begin()
        read_ahead, self._read_ahead = self._read_ahead, None
        found = self._stored()
        if found is None:
            return None
        stored, read_at = found
        known = read_ahead() if read_ahead else self._read_bookings()
        if not self._context.is_fresh(known):
            known = self._read_bookings()
        instant = self._context.instant()
        problem = hold_status(stored, self._hold, instant).problem
        problem = problem or self._context.turn_problem(stored, self._hold, instant)
        return min(read_at, known) if problem is None and self.is_seen() else None

    def _read_bookings(self) -> float:
        """Read the Bookings from the API server into the cache; returns when the request was sent."""
        begun = self._context.clock.monotonic()
        self._context.read_bookings()
        return begun

    def is_seen(self) -> bool:
        """Whether our cache shows that the pod waits for exactly this hold."""
        seen = self._context.seen(self._pod.metadata.uid)
        return seen is not None and self._waits(seen)

    def _stored(self) -> tuple[Pod, float] | None:
        """The booked pod, and when it was read; None if it no longer waits for the hold or came too late."""
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
        """Whether the pod waits for exactly this hold."""
        text = self._pod.metadata.annotation(names.HOLD)
        return pod.metadata.annotation(names.HOLD) == text and not pod.spec.node_name and is_live(pod)
