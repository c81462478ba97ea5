"""Background loops that survive errors: a failed round is logged and counted, and the next one follows.

A process that binds pods must not end because an Event cannot be written. But it becomes unready if a loop
fails repeatedly.
"""

import threading
from collections.abc import Callable
from typing import Final

import structlog

from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

Body = Callable[[threading.Event], None]
"""The body of a thread, which runs until the event is set."""

IN_A_ROW: Final = 3
"""Number of consecutive failures that make the process unready."""
PAUSE: Final = 1.0
"""Seconds before a loop of its own that has raised is started again."""
WELL_AFTER: Final = 60.0
"""Seconds without an error after which such a loop counts as recovered: its rounds are not known here."""


class Loops:
    """The loops of one process."""

    def __init__(self, clock: Clock, count: Callable[[str], None]) -> None:
        """Args: count: called with the name of a loop each time it has failed."""
        self._clock = clock
        self._count = count
        self._failed: dict[str, int] = {}
        """Loop -> number of consecutive failures."""
        self._begun: dict[str, float] = {}
        """Loop of its own -> when it was last started again."""

    def rounds(self, name: str, every: float, work: Callable[[], None]) -> Body:
        """The body of a thread that calls ``work`` every so many seconds, first after so many seconds."""

        def body(stop: threading.Event) -> None:
            while not self._clock.wait(stop, every):
                if self._is_done(name, work):
                    self._failed.pop(name, None)

        return body

    def lasting(self, name: str, run: Body) -> Body:
        """The body of a thread whose ``run`` is a loop of its own: it is started again if it raises."""

        def body(stop: threading.Event) -> None:
            while not self._is_done(name, lambda: run(stop)):
                if self._clock.wait(stop, PAUSE):
                    return
                self._begun[name] = self._clock.monotonic()

        return body

    def unready_reason(self) -> str | None:
        """Which loop fails repeatedly; None if none does."""
        for name, times in tuple(self._failed.items()):
            if times >= IN_A_ROW and not self._has_recovered(name):
                return f"The loop {name!r} has failed {times} times in a row; the log says why."
        return None

    def _is_done(self, name: str, work: Callable[[], None]) -> bool:
        """Whether ``work`` did not raise; an error is logged and counted."""
        try:
            work()
        except Exception:
            times = 1 if self._has_recovered(name) else self._failed.get(name, 0) + 1
            self._failed[name] = times
            self._count(name)
            log.exception(
                "a background loop failed and is tried again", loop=name, consecutive_failures=times
            )
            return False
        return True

    def _has_recovered(self, name: str) -> bool:
        begun = self._begun.get(name)
        return begun is not None and self._clock.monotonic() - begun >= WELL_AFTER
