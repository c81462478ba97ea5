"""Wakes loops that wait for work when they must stop."""

import threading
from collections.abc import Callable


def wake_at(stop: threading.Event, wake: threading.Event) -> None:
    """Set ``wake`` as soon as ``stop`` is set.

    A loop that waits on ``wake`` must clear it first and check ``stop`` afterwards, so as to miss neither.
    """
    call_at(stop, wake.set)


def call_at(stop: threading.Event, call: Callable[[], object]) -> None:
    """Call ``call`` once, as soon as ``stop`` is set, in a thread of its own."""

    def pass_on() -> None:
        stop.wait()
        call()

    threading.Thread(target=pass_on, name="wake-at-stop", daemon=True).start()


def nothing() -> None:
    """Does nothing: the default of callbacks."""
