"""Time as an interface: code that needs the time or waits is given a Clock; tests give a virtual one."""

import threading
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What this product asks of time."""

    def now(self) -> datetime:
        """The wall clock as an aware instant in UTC: for what is written into objects."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow: for durations, ages and deadlines."""
        ...

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until the event is set or the time is over; whether it is set."""
        ...


class SystemClock:
    """The machine's clock: the only place where shipped code reads it."""

    def now(self) -> datetime:
        """The wall clock in UTC."""
        return datetime.now(UTC)  # noqa: TID251 - the one place

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""
        return time.monotonic()  # noqa: TID251 - the one place

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait on the event in real time."""
        return event.wait(seconds)
