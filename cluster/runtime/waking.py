"""Loops that wait for work, and must not sleep on when they are told to stop."""

import threading


def wake_at(stop: threading.Event, wake: threading.Event) -> None:
    """Set ``wake`` as soon as ``stop`` is set.

    A loop that waits on ``wake`` clears it first and asks ``stop`` afterwards: so that neither is missed.
    """

    def pass_on() -> None:
        stop.wait()
        wake.set()

    threading.Thread(target=pass_on, name="wake-at-stop", daemon=True).start()
