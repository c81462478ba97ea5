"""Pods that could not be evicted: left out of the plans for a while, each time for longer.

A pod that a disruption budget protects is protected for minutes or indefinitely. If plans kept using it, its
owner would get a notice and its withdrawal every few seconds, and the booked pod a new hold each time.
"""

from typing import Final

from cluster.decide.exponential_backoff import exponential_backoff
from cluster.process.clock import Clock

SPARED_FOR: Final = 10.0
"""Seconds, the first time; then twice as long as before."""
SPARED_AT_MOST: Final = 60.0
"""Seconds for which a pod is left out at most."""


class UnevictablePods:
    """The pods that are left out now. Not thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pauses: dict[str, tuple[float, int]] = {}
        """Uid -> the end of its pause, and how often in a row it could not be evicted."""

    def add(self, uid: str) -> None:
        """Record that this pod could not be evicted just now."""
        _, before = self._pauses.get(uid, (0.0, 0))
        pause = exponential_backoff(before + 1, first=SPARED_FOR, longest=SPARED_AT_MOST)
        self._pauses[uid] = (self._clock.monotonic() + pause, before + 1)

    @property
    def uids(self) -> frozenset[str]:
        """Pods that must not be planned with at this moment."""
        now = self._clock.monotonic()
        return frozenset(uid for uid, (until, _) in self._pauses.items() if now < until)

    def forget_all_but(self, uids: frozenset[str]) -> None:
        """Drop what is remembered about pods that are gone."""
        self._pauses = {uid: pause for uid, pause in self._pauses.items() if uid in uids}
