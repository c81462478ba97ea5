"""Time as an interface: code that needs the time or waits gets a Clock; tests pass a virtual one."""

import threading
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The time, as this product uses it."""

    def now(self) -> datetime:
        """The wall clock as an aware instant in UTC: for instants that are written into objects."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow: for durations, ages and deadlines."""
        ...

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until the event is set or the time is over; returns whether it is set."""
        ...


def thread_seconds() -> float:
    """Seconds of processor time that the calling thread has used."""
    return time.thread_time()


class SystemClock:
    """The machine's clock. Shipped code reads it only here."""

    def now(self) -> datetime:
        """The wall clock in UTC."""
        return datetime.now(UTC)  # noqa: TID251 - the one place

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""
        return time.monotonic()  # noqa: TID251 - the one place

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait on the event in real time."""
        return event.wait(seconds)
