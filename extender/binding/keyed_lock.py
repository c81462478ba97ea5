"""A lock per pod: a second bind for a pod waits until the first has an answer.

Used by ``bind``, which waits for a limited time, and by ``assumed_binds``, which tries again later.
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from cluster.process.clock import Clock


class KeyedLock:
    """Which caller works on which pod; a pod's queue exists only while it is used."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._lines: dict[str, deque[threading.Event]] = {}
        """Uid -> events of the holder, then of those that wait; an event is set when its owner is first."""

    @contextmanager
    def held(self, uid: str, within: float) -> Iterator[bool]:
        """Work on this pod exclusively.

        Args:
            uid: the pod's uid.
            within: maximum seconds to wait for others.

        Returns:
            Whether the lock was acquired; False if the time was over before.
        """
        mine = threading.Event()
        with self._guard:
            line = self._lines.setdefault(uid, deque())
            line.append(mine)
            is_first = line[0] is mine
        try:
            yield is_first or self._clock.wait(mine, max(0.0, within))
        finally:
            with self._guard:
                was_first = line[0] is mine
                line.remove(mine)
                if not line:
                    del self._lines[uid]
                elif was_first:
                    line[0].set()
