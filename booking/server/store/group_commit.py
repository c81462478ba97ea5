"""Writers take turns, and writes that wait together are committed together.

One of the waiting threads leads: it runs the writes of all of them, one after the other, in one transaction,
commits once, and only then releases the others; so no answer precedes the commit. Writers that arrive
meanwhile form the next turn, led by the first of them.
"""

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, Final

MOST: Final = 64
"""Writes in one transaction at most."""


class PendingWrite:
    """A write that a thread has submitted, and its outcome."""

    def __init__(self, decide: Callable[[Any], Any]) -> None:
        self.decide = decide
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_done = False
        self._calls: SimpleQueue[None] = SimpleQueue()

    def succeed(self, result: object) -> None:
        """Record that the write is stored, with this result for its thread."""
        self.result, self.error, self.is_done = result, None, True

    def fail(self, error: BaseException) -> None:
        """Record that the write is not stored, and never will be."""
        self.error, self.is_done = error, True

    def call(self) -> None:
        """Wake the thread that has submitted the write."""
        self._calls.put(None)

    def await_call(self) -> None:
        """Wait until another thread calls ``call``."""
        self._calls.get()


class GroupCommit:
    """The queue of one database's writers."""

    def __init__(self, store_all: Callable[[Sequence[PendingWrite]], None]) -> None:
        self._store_all = store_all
        """Runs the pending writes in one transaction; each is done afterwards, whatever happened."""
        self._lock = threading.Lock()
        self._waiting: list[PendingWrite] = []
        self._is_led = False
        self._inside = threading.local()

    def submit(self, decide: Callable[[Any], Any]) -> Any:
        """Run a write in some turn; returns its result once that is stored."""
        if getattr(self._inside, "leads", False):
            raise RuntimeError("A writing transaction was begun inside another one.")
        write = PendingWrite(decide)
        with self._lock:
            self._waiting.append(write)
            leads, self._is_led = not self._is_led, True
        if not leads:
            write.await_call()
        if not write.is_done:
            self._lead()
        if write.error is not None:
            raise write.error
        return write.result

    def _lead(self) -> None:
        with self._lock:
            turn, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
        self._inside.leads = True
        try:
            self._store_all(turn)
        finally:
            self._inside.leads = False
            self._hand_over(turn)

    def _hand_over(self, turn: Sequence[PendingWrite]) -> None:
        with self._lock:
            heir = self._waiting[0] if self._waiting else None
            self._is_led = heir is not None
        for write in (*turn, *([heir] if heir else [])):
            write.call()
