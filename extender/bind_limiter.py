"""Binds have a bounded number of the server's threads, and wait in them for their turn at a node.

A bind whose node has another pod to answer for waits for the kubelet's word, some hundredths of a second:
kube-scheduler would try the pod again only after a backoff of a second and more. Its binds come side by side,
and each takes a thread for as long as the API server works; with more than a bounded number under way the
next are refused at once, so that the other verbs always have threads left.
"""

import threading
from collections.abc import Callable
from typing import Final

from cluster import names
from cluster.process.clock import Clock
from extender.bind import unanswered
from extender.bind_deadline import BindDeadline
from extender.state import ClusterState
from extender.wire import ExtenderBindingArgs, ExtenderBindingResult

PATIENCE: Final = 2.0
"""Seconds of the budget; deciding and posting may take as long again."""
BUSY: Final = f"{names.NOT_NOW} As many binds are under way as this extender works on at one time."


class BindLimiter:
    """Binds when it is the pod's turn."""

    def __init__(
        self,
        bind: Callable[[ExtenderBindingArgs, BindDeadline], ExtenderBindingResult],
        state: ClusterState,
        clock: Clock,
        *,
        at_most: int,
    ) -> None:
        """Args: at_most: binds at a time."""
        self._bind = bind
        self._state = state
        self._clock = clock
        self._under_way = threading.BoundedSemaphore(at_most)

    def __call__(self, arguments: ExtenderBindingArgs) -> ExtenderBindingResult:
        """The answer to the bind, once the node is free to be asked or patience is at its end."""
        if not self._under_way.acquire(blocking=False):
            return ExtenderBindingResult(error=BUSY)
        try:
            return self._when_it_is_its_turn(arguments)
        finally:
            self._under_way.release()

    def _when_it_is_its_turn(self, arguments: ExtenderBindingArgs) -> ExtenderBindingResult:
        budget, until = BindDeadline(self._clock), self._clock.monotonic() + PATIENCE
        while True:
            result = self._bind(arguments, budget)
            if result.error != unanswered(arguments.node):
                break
            left = max(0.0, until - self._clock.monotonic())
            self._state.reserve_for_bind(arguments.pod_uid, arguments.node, left)
            if not self._state.bind_queue.wait(arguments.node, self._state.awaits_answer, until):
                break
        if result.error:
            self._state.soft.release(arguments.pod_uid)
            self._state.bind_queue.notify(arguments.node)
        return result
