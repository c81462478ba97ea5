"""Follows the pods of this node where the kubelet does not tell them: the thread that decides and watches.

A kubelet with the Pods API costs the API server no watch. One that is upgraded beneath a running agent keeps
the watch until the agent's next start, which does no harm: the kubelet is asked first.
"""

import threading
from collections.abc import Callable
from typing import Final

import structlog

from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

LOOK_EVERY: Final = 5.0
"""Seconds between two looks whether a kubelet that did not tell its pods does so now."""
LOOK_AGAIN: Final = 60.0
"""Seconds until one is asked again that does: another one may be started in its place. Until that is noticed
the API server is asked for the pods, each time."""
LOOKS: Final = 2
"""So often in a row it must be without the API: one that starts is so for a moment."""


class BoundPodsWatch:
    """Watches once it is needed."""

    def __init__(
        self, watch: Callable[[threading.Event], None], is_needed: Callable[[], bool], clock: Clock
    ) -> None:
        """Args: watch: the body of a thread; is_needed: whether the kubelet is there and does not tell."""
        self._watch = watch
        self._is_needed = is_needed
        self._clock = clock

    def run(self, stop: threading.Event) -> None:
        """Until told to stop."""
        looks = 0
        while looks < LOOKS:
            looks = looks + 1 if self._is_needed() else 0
            if looks < LOOKS and self._clock.wait(stop, LOOK_EVERY if looks else LOOK_AGAIN):
                return
        log.info(
            "the pods of this node are watched at the API server",
            message="The kubelet has no Pods API (it is on by default since Kubernetes 1.37).",
        )
        self._watch(stop)
