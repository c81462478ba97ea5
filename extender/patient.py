"""A bind whose node has another pod to answer for waits for the kubelet's word, some hundredths of a second.

kube-scheduler would try the pod again only after a backoff of a second and more. Its binds come side by side,
and it gives each 5 s; a bounded number waits, so that the other verbs always have threads left.
"""

import threading
from collections.abc import Callable
from typing import Final

from cluster.runtime.clock import Clock
from extender.bind import unanswered
from extender.wire import BindingArguments, BindingResult

PATIENCE: Final = 2.0
"""Seconds; deciding and posting may take as long again."""
EVERY: Final = 0.01
"""Seconds between two attempts."""


class Patient:
    """Binds when it is the pod's turn."""

    def __init__(
        self,
        bind: Callable[[BindingArguments], BindingResult],
        awaits: Callable[[str], bool],
        clock: Clock,
        *,
        at_most: int,
    ) -> None:
        """Args: awaits: whether a node's kubelet has another pod to answer for; at_most: who may wait."""
        self._bind = bind
        self._awaits = awaits
        self._clock = clock
        self._never = threading.Event()
        self._waiting = threading.BoundedSemaphore(at_most)

    def __call__(self, arguments: BindingArguments) -> BindingResult:
        """The answer to the bind, once the node is free to be asked or patience is at its end."""
        until = self._clock.monotonic() + PATIENCE
        while True:
            result = self._bind(arguments)
            if result.error != unanswered(arguments.node) or not self._has_waited(arguments.node, until):
                return result

    def _has_waited(self, node: str, until: float) -> bool:
        """Wait for the node; whether it is worth another attempt."""
        if not self._waiting.acquire(blocking=False):
            return False
        try:
            while self._clock.monotonic() < until:
                if not self._awaits(node):
                    return True
                self._clock.wait(self._never, EVERY)
            return False
        finally:
            self._waiting.release()
