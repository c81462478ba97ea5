"""Compares our clock with the API server's on a timer, more often while they differ.

Only answers have the API server's time. Watches that stay open bring none, and an extender whose clock is
wrong binds nothing, so it would get none. ``__main__`` runs this periodically in a thread of its own.
"""

from typing import Final

from cluster import names
from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube
from cluster.kube.resources import LEASES
from cluster.process.clock import Clock
from extender.state.cluster_state import Readiness

EVERY: Final = 5.0
"""Seconds between two requests while the clocks differ."""
CALM: Final = 30.0
"""Seconds between two requests while they agree."""
WITHIN: Final = 3.0
"""Seconds to wait for an answer: a lost one delays us by this and ``EVERY`` at most."""


class ClockCheck:
    """Sends the API server a minimal request."""

    def __init__(self, kube: Kube, wrong_clock: Readiness, clock: Clock, *, namespace: str) -> None:
        """Args: wrong_clock: why our clock is wrong, by the last answer; namespace: that of our Leases."""
        self._kube = kube
        self._wrong_clock = wrong_clock
        self._clock = clock
        self._requested_at = clock.monotonic()
        self._namespace = namespace

    def reconcile(self) -> None:
        """Send a request if the last one is long ago or our clock was wrong; the client reads the time."""
        now = self._clock.monotonic()
        if now - self._requested_at < CALM and not self._wrong_clock():
            return
        self._requested_at = now
        try:
            self._kube.get(LEASES, names.EXTENDER, namespace=self._namespace, within=WITHIN)
        except ApiError:
            return  # a refusal (no such object) has the time, too; without an answer there is a next round
