"""Requests of kube-scheduler go first: threads that read events pause while one is answered.

Python gives its lock to all threads in turn, so an answer that computes for three milliseconds would take six
or more while a list is read. Instead, events wait for the answer. They do not wait for longer than they are
read: under uninterrupted requests, both proceed at half the speed.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from cluster.process.clock import Clock

LONGEST: Final = 0.01
"""Maximum seconds that events wait at a time."""


class VerbPriority:
    """Makes other threads wait while requests are answered. Safe for many threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._answering = 0
        self._free = threading.Event()
        self._free.set()
        self._waits_again_at = 0.0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """A context in which a request is answered."""
        with self._lock:
            self._answering += 1
            self._free.clear()
        try:
            yield
        finally:
            with self._lock:
                self._answering -= 1
                if not self._answering:
                    self._free.set()

    def give(self) -> None:
        """Wait until no request is being answered; at most ``LONGEST``, and at most half of the time."""
        if self._free.is_set():
            return
        begin = self._clock.monotonic()
        if begin < self._waits_again_at:
            return
        self._clock.wait(self._free, LONGEST)
        end = self._clock.monotonic()
        self._waits_again_at = end + (end - begin)
