"""The time that one bind has, shared by all that it does: kube-scheduler waits for 5 s, then asks again."""

from typing import Final

from cluster.process.clock import Clock

SECONDS: Final = 4.0
"""From the question to the answer, whatever has to be read, waited for and posted between."""


class BindDeadline:
    """What is left of it."""

    def __init__(self, clock: Clock, seconds: float = SECONDS) -> None:
        self._clock = clock
        self._until = clock.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds; not above 0 when it is used up."""
        return self._until - self._clock.monotonic()
