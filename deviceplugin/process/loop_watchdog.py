"""Checks, for the probes, whether the agent's loops still run.

A loop waits on its clock between two rounds. ``WatchedClock`` is that clock, and records when its last wait
ended.
"""

import threading
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from cluster.process.clock import Clock
from cluster.process.probes import Check

LONGEST_ROUND: Final = 60.0
"""Maximum seconds of a round; each call in it has a deadline far below."""


class WatchedClock:
    """The clock of one loop."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self._clock = clock
        self._rests = False
        self._at = clock.monotonic()

    @property
    def problem(self) -> str | None:
        """A message if the loop is stuck in its work; None while it runs or waits."""
        if self._rests or self._clock.monotonic() - self._at < LONGEST_ROUND:
            return None
        return f"The loop {self.name!r} has not run for {LONGEST_ROUND:g} s."

    # --- the clock --------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """See ``Clock``."""
        return self._clock.now()

    def monotonic(self) -> float:
        """See ``Clock``."""
        return self._clock.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """See ``Clock``: between two rounds."""
        self._rests = True
        try:
            return self._clock.wait(event, seconds)
        finally:
            self._at = self._clock.monotonic()
            self._rests = False


def alive(loops: Iterable[WatchedClock]) -> Check:
    """A check that returns the message of the first loop that is stuck, or None."""
    watched = tuple(loops)
    return lambda: next((message for one in watched if (message := one.problem)), None)
