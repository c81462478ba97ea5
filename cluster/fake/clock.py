"""A clock that only a test advances."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from cluster.process.clock import SystemClock

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
"""A Monday morning."""
PATIENCE: Final = 60.0
"""Seconds of real time. Generous, since a wait ends as soon as its condition is true."""


class FakeClock:
    """Virtual time, for one thread or many.

    ``advance`` moves it and wakes the threads that wait. With ``self_advancing`` a wait itself moves the time
    to its end and returns: for code that runs in the test's own thread.
    """

    def __init__(self, start: datetime = START, *, self_advancing: bool = False) -> None:
        self._start = start
        self._elapsed = 0.0
        self._waiting: list[float] = []
        self._changed = threading.Condition()
        self._self_advancing = self_advancing
        self.waits: list[float] = []
        """The length of every wait so far, in seconds."""

    def now(self) -> datetime:
        """The virtual instant."""
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        """Virtual seconds since the start."""
        return self._elapsed

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait in virtual time until the event is set or the time is over; returns whether it is set."""
        with self._changed:
            self.waits.append(seconds)
            deadline = self._elapsed + seconds
            if self._self_advancing:
                if not event.is_set():
                    self._elapsed = deadline
                return event.is_set()
            self._waiting.append(deadline)
            self._changed.notify_all()
            try:
                # The setter of the event does not know this condition: check it in real time, too.
                while not event.is_set() and self._elapsed < deadline:
                    self._changed.wait(0.005)
            finally:
                self._waiting.remove(deadline)
        return event.is_set()

    def advance(self, seconds: float) -> None:
        """Let virtual time pass."""
        with self._changed:
            self._elapsed += seconds
            self._changed.notify_all()

    def until_waiting(self, threads: int = 1, *, deadline: float = PATIENCE) -> None:
        """Wait, in real time, until that many threads wait on this clock.

        Raises:
            AssertionError: they did not within ``deadline`` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._sleepers() >= threads, deadline):
                raise AssertionError(f"{self._sleepers()} threads wait on the clock, not {threads}.")

    def _sleepers(self) -> int:
        return sum(deadline > self._elapsed for deadline in self._waiting)


def eventually(condition: Callable[[], object], *, deadline: float = PATIENCE) -> None:
    """Poll a callable, in real time, until it returns something true; once more after the deadline.

    Raises:
        AssertionError: it never did.
    """
    clock, pause = SystemClock(), threading.Event()
    end = clock.monotonic() + deadline
    is_over = False
    while not condition():
        if is_over:
            raise AssertionError("the condition never became true")
        clock.wait(pause, 0.002)
        is_over = clock.monotonic() > end
