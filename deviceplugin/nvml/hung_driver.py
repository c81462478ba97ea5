"""Lets the agent continue, and end, while the driver hangs: a hung thread can only be abandoned.

``__main__`` wraps the watching thread's target with it. Without it, a process that must end would wait its
whole grace period for a call that does not return.
"""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

import structlog

from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

PATIENCE: Final = 5.0
"""Seconds that a call to the driver has to return when the agent ends."""
CHECK_EVERY: Final = 1.0
"""Seconds between two checks of whether the thread is still alive."""

Target = Callable[[threading.Event], None]


class HangingDriverError(Exception):
    """A call to the driver did not return when the agent ended."""


def abandoning_a_hung_driver(target: Target, clock: Clock, overdue: Callable[[], bool]) -> Target:
    """A target that runs the given one in a daemon thread of its own, and abandons that thread if it hangs.

    It ends as the given target does, and raises that target's error. Once its stop event is set it ends
    within ``PATIENCE`` at the latest, then with a HangingDriverError.

    Args:
        target: the thread's body.
        clock: for the waits.
        overdue: called every ``CHECK_EVERY``: whether to abandon the thread now and start another one.
    """

    def run(stop: threading.Event) -> None:
        attempt = _Attempt(target, stop)
        while not attempt.ended.is_set() and not stop.is_set():
            clock.wait(stop, CHECK_EVERY)
            if overdue():
                log.warning(
                    "the driver hangs on a GPU", message="Its thread is left behind, another goes on."
                )
                attempt = _Attempt(target, stop)
        if not clock.wait(attempt.ended, PATIENCE):
            raise HangingDriverError("The call does not return: its thread is left behind.")
        if attempt.errors:
            raise attempt.errors[0]

    return run


class _Attempt:
    """The target in a thread, which starts immediately."""

    def __init__(self, target: Target, stop: threading.Event) -> None:
        self.ended = threading.Event()
        self.errors: list[BaseException] = []

        def body() -> None:
            with ExitStack() as stack:
                stack.callback(self.ended.set)
                stack.push(self._keep)
                target(stop)

        threading.Thread(target=body, name="nvml-driver", daemon=True).start()

    def _keep(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        """Keep the error, which is raised again in the thread that waits for this one."""
        if error is not None:
            self.errors.append(error)
        return True
