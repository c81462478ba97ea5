"""The thread that watches the pods of this node if the kubelet has no Pods API.

With a kubelet that has the Pods API there is no watch, to spare the API server. If the kubelet is upgraded
under a running agent, the watch stays until the agent's next start. That does no harm, since the kubelet's
API is tried first.
"""

import threading
from collections.abc import Callable
from typing import Final

import structlog

from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

CHECK_EVERY: Final = 5.0
"""Seconds between two checks of a kubelet that had no Pods API in the last one."""
RECHECK_EVERY: Final = 60.0
"""Seconds between two checks of a kubelet that has it: one without it may be started in its place. Until that
is noticed, the pods are listed from the API server each time."""
CHECKS: Final = 2
"""Number of consecutive checks that must find no Pods API: a starting kubelet has none for a moment."""


class BoundPodsWatch:
    """Starts the watch when it is needed."""

    def __init__(
        self, watch: Callable[[threading.Event], None], is_needed: Callable[[], bool | None], clock: Clock
    ) -> None:
        """Args: watch: the body of a thread; is_needed: no Pods API is served (None: not registered)."""
        self._watch = watch
        self._is_needed = is_needed
        self._clock = clock

    def run(self, stop: threading.Event) -> None:
        """Check, and then watch, until the stop event is set."""
        checks = 0
        while checks < CHECKS:
            is_needed = self._is_needed()
            checks = checks + 1 if is_needed else 0
            pause = RECHECK_EVERY if is_needed is False else CHECK_EVERY
            if checks < CHECKS and self._clock.wait(stop, pause):
                return
        log.info(
            "the pods of this node are watched at the API server",
            message="The kubelet has no Pods API (it is on by default since Kubernetes 1.37).",
        )
        self._watch(stop)
