"""Takes the cluster's objects out of the garbage collector's sight once the first picture is complete.

They live as long as the process, and walking them again and again is what made the slowest answers slow.
Runs in its own thread, started by ``__main__``.
"""

import gc
import threading
from collections.abc import Callable
from typing import Final

from cluster.process.clock import Clock
from extender.state import Readiness

EVERY: Final = 0.1
"""Seconds between two looks whether the picture is complete."""


def _freeze() -> None:
    gc.collect()
    gc.freeze()


class Freeze:
    """Freezes once, then rests."""

    def __init__(self, unready_reason: Readiness, clock: Clock, freeze: Callable[[], None] = _freeze) -> None:
        """Args: unready_reason: why the picture is not complete yet; freeze: what to do when it is."""
        self._unready_reason = unready_reason
        self._clock = clock
        self._freeze = freeze

    def run(self, stop: threading.Event) -> None:
        """Wait for the picture, freeze it, wait for the end."""
        while self._unready_reason():
            if self._clock.wait(stop, EVERY):
                return
        self._freeze()
        stop.wait()
