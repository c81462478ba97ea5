"""Ends the agent although the driver hangs: its thread cannot be stopped, so it is left behind.

``__main__`` wraps the watching thread's target with it. A process that is told to end would otherwise wait
its whole grace for a call that does not come back.
"""

import threading
from collections.abc import Callable
from typing import Final

from cluster.runtime.clock import Clock

PATIENCE: Final = 5.0
"""Seconds that the driver has to give control back when the agent ends."""
LOOK_EVERY: Final = 1.0
"""Seconds between two looks whether the thread still lives."""

Target = Callable[[threading.Event], None]


class HangingDriverError(Exception):
    """The driver did not give control back at the end; a sentence."""


def leaving_a_hanging_driver(target: Target, clock: Clock) -> Target:
    """The target in a daemon thread of its own, which is left behind where it does not end.

    What it returns ends as the target does, with its error; and after ``PATIENCE`` at the latest once it is
    told to stop, then with a HangingDriverError.
    """

    def run(stop: threading.Event) -> None:
        errors: list[BaseException] = []
        ended = threading.Event()

        def body() -> None:
            try:
                target(stop)
            except BaseException as error:  # noqa: BLE001 - raised again below, in the thread that is watched
                errors.append(error)
            ended.set()

        threading.Thread(target=body, name="nvml-driver", daemon=True).start()
        while not ended.is_set() and not stop.is_set():
            clock.wait(stop, LOOK_EVERY)
        if not clock.wait(ended, PATIENCE):
            raise HangingDriverError("The driver does not give control back: its thread is left behind.")
        if errors:
            raise errors[0]

    return run
