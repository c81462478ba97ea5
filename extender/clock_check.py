"""Compares our clock with the API server's on a timer, more often while they differ.

Only an answer tells its clock, watches that stay open bring none, and an extender whose clock is no good
binds nobody, so that nothing else would ask. ``__main__`` plays it again and again in a thread of its own.
"""

from typing import Final

from cluster import names
from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube
from cluster.kube.resources import LEASES
from cluster.process.clock import Clock
from extender.state import Readiness

EVERY: Final = 5.0
"""Seconds between two answers while the clocks differ."""
CALM: Final = 30.0
"""Seconds while they do not."""
WITHIN: Final = 3.0
"""Seconds for an answer: one that is lost keeps us for that and for ``EVERY`` at most."""


class ClockCheck:
    """Asks the API server for as good as nothing."""

    def __init__(self, kube: Kube, wrong_clock: Readiness, clock: Clock, *, namespace: str) -> None:
        """Args: wrong_clock: what is wrong with our clock by the newest answer; namespace: of our Leases."""
        self._kube = kube
        self._wrong_clock = wrong_clock
        self._clock = clock
        self._asked = clock.monotonic()
        self._namespace = namespace

    def reconcile(self) -> None:
        """One round."""
        now = self._clock.monotonic()
        if now - self._asked < CALM and not self._wrong_clock():
            return
        self._asked = now
        try:
            self._kube.get(LEASES, names.EXTENDER, namespace=self._namespace, within=WITHIN)
        except ApiError:
            return  # a refusal, as that there is none, has told its clock, too; no answer: it is asked again
