"""One at a time per pod: a second bind for a pod waits until the first has an answer.

Used by ``bind``, which has a bounded time for everything, and ``assumed_binds``, which comes again.
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from cluster.process.clock import Clock


class KeyedLock:
    """Who works on which pod; a line before each exists only while somebody does."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._lines: dict[str, deque[threading.Event]] = {}
        """Uid -> whoever works on the pod, and behind it who waits; each is told when it is the first."""

    @contextmanager
    def held(self, uid: str, within: float) -> Iterator[bool]:
        """Be the only one who works on this pod.

        Args:
            uid: the pod's.
            within: seconds for which others are waited for at most.

        Returns:
            Whether it is one's turn; False when the time is over.
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
