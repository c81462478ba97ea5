"""The graceful end of an agent: first the Lease is released, then the kubelet is served a little longer.

The extender sees the release a moment later, and may post a Binding until then; the kubelet would reject that
pod if this plugin were already gone.
"""

import threading
from collections.abc import Callable
from typing import Final

from cluster.process.clock import Clock

SERVED_ON: Final = 3.0
"""Seconds to keep serving: the extender posts a Binding at most 2 s after its decision."""


class GracefulShutdown:
    """Delays the end of the threads that serve the kubelet."""

    def __init__(self, release: Callable[[], bool], clock: Clock) -> None:
        """Args: release: gives the Lease up; returns whether it was held until now."""
        self._release = release
        self._clock = clock
        self._over = threading.Event()

    def body(self, serve: Callable[[threading.Event], None]) -> Callable[[threading.Event], None]:
        """A thread's body that runs until ``leave`` lets it end, not until the process must stop."""
        return lambda _stop: serve(self._over)

    def leave(self) -> None:
        """Release the Lease, wait while pods that are on their way are served, and let the threads end."""
        try:
            if self._release():
                self._clock.wait(self._over, SERVED_ON)
        finally:
            self._over.set()
