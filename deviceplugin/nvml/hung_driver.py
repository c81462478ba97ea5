"""Goes on, and ends the agent, although the driver hangs: its thread cannot be stopped, so it is left behind.

``__main__`` wraps the watching thread's target with it. A process that is told to end would otherwise wait
its whole grace for a call that does not come back.
"""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

import structlog

from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

PATIENCE: Final = 5.0
"""Seconds that the driver has to give control back when the agent ends."""
LOOK_EVERY: Final = 1.0
"""Seconds between two looks whether the thread still lives."""

Target = Callable[[threading.Event], None]


class HangingDriverError(Exception):
    """The driver did not give control back at the end; a sentence."""


def abandoning_a_hung_driver(target: Target, clock: Clock, overdue: Callable[[], bool]) -> Target:
    """The target in a daemon thread of its own, which is left behind where it does not end.

    What it returns ends as the target does, with its error; and after ``PATIENCE`` at the latest once it is
    told to stop, then with a HangingDriverError.

    Args:
        target: the thread's body.
        clock: for the waiting.
        overdue: asked now and then whether the thread has to be left behind at once: then another one begins.
    """

    def run(stop: threading.Event) -> None:
        attempt = _Attempt(target, stop)
        while not attempt.ended.is_set() and not stop.is_set():
            clock.wait(stop, LOOK_EVERY)
            if overdue():
                log.warning(
                    "the driver hangs on a GPU", message="Its thread is left behind, another goes on."
                )
                attempt = _Attempt(target, stop)
        if not clock.wait(attempt.ended, PATIENCE):
            raise HangingDriverError("The driver does not give control back: its thread is left behind.")
        if attempt.errors:
            raise attempt.errors[0]

    return run


class _Attempt:
    """The target in a thread, begun at once."""

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
        """It is raised again in the thread that is watched."""
        if error is not None:
            self.errors.append(error)
        return True
