"""One at a time per pod: a second bind for a pod waits until the first has an answer.

Used by ``bind`` and ``settle``.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Flights:
    """Locks by pod uid that exist only while somebody wants them."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[str, tuple[threading.Lock, int]] = {}

    @contextmanager
    def alone(self, uid: str) -> Iterator[None]:
        """Be the only one who works on this pod; others wait."""
        with self._guard:
            lock, users = self._locks.get(uid, (threading.Lock(), 0))
            self._locks[uid] = (lock, users + 1)
        try:
            with lock:
                yield
        finally:
            with self._guard:
                lock, users = self._locks.pop(uid)
                if users > 1:
                    self._locks[uid] = (lock, users - 1)
