"""Cuts connections on which a database server does not answer any more.

A server that hangs (because its disk hangs, or its machine is suspended) leaves the socket open and sends
nothing, and its own time limits hang with it. libpq has limits for connecting and for unacknowledged data,
but none for an answer: a query would wait indefinitely.
"""

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from cluster.process.clock import Clock, SystemClock

_CHECKS: Final = 10
"""Number of checks in the time that an answer may take."""


class Watchdog:
    """Watches all connections to one server."""

    def __init__(self, patience: float, clock: Clock | None = None) -> None:
        """Args: patience: seconds that an answer may take."""
        self._patience = patience
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._queries: dict[object, tuple[float, Callable[[], int]]] = {}
        """Query -> when its time is up, and the socket on which its answer arrives."""
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    @contextmanager
    def watching(self, fileno: Callable[[], int]) -> Iterator[None]:
        """Inside a thread waits for an answer; past its time the socket is shut down, which ends the wait.

        Args:
            fileno: returns the socket's file descriptor.
        """
        query = object()
        with self._lock:
            self._queries[query] = self._clock.monotonic() + self._patience, fileno
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="store-watchdog", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                del self._queries[query]

    def reconcile(self) -> None:
        """Cut connections whose answer takes too long."""
        now = self._clock.monotonic()
        # The lock keeps queries registered while they are checked: otherwise a socket whose number has been
        # reused meanwhile would be shut down.
        with self._lock:
            for due, fileno in self._queries.values():
                if now >= due:
                    _cut(fileno)

    def close(self) -> None:
        """End the watching thread: connections are not cut any more."""
        self._closed.set()

    def _watch(self) -> None:
        while not self._clock.wait(self._closed, self._patience / _CHECKS):
            self.reconcile()


def _cut(fileno: Callable[[], int]) -> None:
    # A driver raises errors of its own if the socket is gone: then no thread waits for it, and the other
    # connections are still watched.
    with contextlib.suppress(Exception), socket.socket(fileno=os.dup(fileno())) as ours:
        ours.shutdown(socket.SHUT_RDWR)
