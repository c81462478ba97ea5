"""Waiting for a condition with a deadline: the only module of a cluster's start and faults with a clock."""

import threading
from collections.abc import Callable
from typing import TypeVar

from cluster.process.clock import Clock, SystemClock

T = TypeVar("T")

_CLOCK: Clock = SystemClock()


def poll(
    condition: Callable[[], T | None], *, seconds: float, every: float = 0.05, clock: Clock = _CLOCK
) -> T | None:
    """Check the condition until it returns something true, and return that; None after the deadline.

    The condition is checked at least once, and once more after the deadline, so that the wait does not fail
    on a machine that stalled although the condition holds.
    """
    deadline = clock.monotonic() + seconds
    never = threading.Event()
    while True:
        late = clock.monotonic() >= deadline
        found = condition()
        if found:
            return found
        if late:
            return None
        clock.wait(never, every)


class Stopwatch:
    """Measures the seconds since it was made."""

    def __init__(self, clock: Clock = _CLOCK) -> None:
        self._clock = clock
        self._begin = clock.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since this stopwatch was made."""
        return self._clock.monotonic() - self._begin
