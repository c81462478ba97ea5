"""No more pods are bound to a node than its kubelet may owe answers for: the queue of binds that wait for it.

A waiting bind takes one of the server's threads but nothing else: the cache notifies the first in the queue
when the kubelet has answered. If no answer is expected any more, because a bind was taken back or the
kubelet's time is over, a periodic check finds that out.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from cluster.process.clock import Clock

AGAIN: Final = 0.1
"""Seconds after which a waiting bind checks again."""


class BindQueue:
    """One queue for each node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._queues: dict[str, deque[threading.Event]] = {}

    def wait(self, node: str, awaits: Callable[[str], bool], until: float) -> bool:
        """Wait until the node takes a further pod and no other bind is ahead.

        Args:
            node: the node's name.
            awaits: whether an answer of its kubelet must come first.
            until: when to give up, in seconds of the monotonic clock.

        Returns:
            Whether it is this bind's turn; False if the time was over before.
        """
        mine = threading.Event()
        with self._lock:
            queue = self._queues.setdefault(node, deque())
            queue.append(mine)
        try:
            while (left := until - self._clock.monotonic()) > 0:
                mine.clear()
                if queue[0] is mine and not awaits(node):
                    return True
                self._clock.wait(mine, min(left, AGAIN))
            return False
        finally:
            with self._lock:
                queue.remove(mine)
                if queue:
                    queue[0].set()  # there may be room for more than one
                else:
                    del self._queues[node]

    def notify(self, node: str) -> None:
        """The kubelet has answered, or a turn was not used: the first in the queue checks again."""
        with self._lock:
            queue = self._queues.get(node)
            if queue:
                queue[0].set()
