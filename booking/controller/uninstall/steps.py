"""The order of the steps: one after the other, each until nothing is left to do."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from booking.controller.uninstall.stopping import Report
from cluster.kube.errors import ApiError
from cluster.process.clock import Clock

Step = Callable[[], str | None]
"""Does what can be done now; returns a message about what is left, or None. May raise ``ApiError``."""

PAUSE: Final = 1.0
"""Seconds between two attempts at a step."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long all steps together may take."""

    clock: Clock
    seconds: float


def in_order(steps: Sequence[Step], patience: Patience, report: Report) -> bool:
    """Run every step, each after the one before it is complete; returns whether all are.

    Completed work stays, so another call continues where this one ended.
    """
    clock, stop = patience.clock, threading.Event()
    latest = clock.monotonic() + patience.seconds
    for step in steps:
        reported = None
        while (left := _tried(step)) is not None:
            if left != reported:
                report(left)
                reported = left
            if clock.monotonic() >= latest:
                report("This takes too long. Nothing is lost: see what is said above, and uninstall again.")
                return False
            clock.wait(stop, PAUSE)
    return True


def _tried(step: Step) -> str | None:
    try:
        return step()
    except ApiError as error:
        return f"The API server could not do what was asked, and is asked again: {error}"
