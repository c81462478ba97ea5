"""Loops that wait for work, and must wake up when they are to stop."""

import threading
from collections.abc import Callable


def wake_at(stop: threading.Event, wake: threading.Event) -> None:
    """Set ``wake`` as soon as ``stop`` is set.

    A loop that waits on ``wake`` clears it first and asks ``stop`` afterwards: so that neither is missed.
    """
    call_at(stop, wake.set)


def call_at(stop: threading.Event, call: Callable[[], object]) -> None:
    """Call once as soon as ``stop`` is set, in a thread of its own."""

    def pass_on() -> None:
        stop.wait()
        call()

    threading.Thread(target=pass_on, name="wake-at-stop", daemon=True).start()


def nothing() -> None:
    """For a caller without another thread to wake or to wait for."""
