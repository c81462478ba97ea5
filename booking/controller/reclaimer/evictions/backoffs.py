"""When to retry a comeback that the API server has refused: growing pauses, indefinitely (law L4)."""

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from cluster.kube.backoff import Backoff, Random
from cluster.process.clock import Clock

LONGEST: Final = 30.0
"""Seconds between two attempts at one comeback at most."""
REPEATED_AFTER: Final = 1800.0
"""Seconds: Kubernetes drops Events after an hour, and a waiting user must find one that says why."""
REWORDED_AFTER: Final = 60.0
"""Seconds between explanations: some differ in wording each time, and mean the same."""


@dataclass
class _Pause:
    backoff: Backoff
    until: float = 0.0
    reported: str | None = None
    """The last explanation that was reported."""
    reported_at: float = 0.0
    refusals: int = 0
    """Consecutive ones, this pause's included."""

    def is_worth_reporting(self, message: str, now: float) -> bool:
        """Whether the message is new, or was reported long ago."""
        if self.reported is None:
            return True
        return now - self.reported_at >= (REPEATED_AFTER if message == self.reported else REWORDED_AFTER)


class Backoffs:
    """One growing pause per comeback, and the last explanation reported for it."""

    def __init__(self, clock: Clock, random: Random) -> None:
        """Args: random: spreads the pauses."""
        self._clock = clock
        self._random = random
        self._pauses: dict[str, _Pause] = {}

    def is_over(self, uid: str) -> bool:
        """Whether the comeback of this victim may be tried now."""
        pause = self._pauses.get(uid)
        return pause is None or self._clock.monotonic() >= pause.until

    def begin(self, uid: str) -> None:
        """An attempt begins: the next one may follow after a pause that is longer than the last."""
        pause = self._pause(uid)
        pause.until = self._clock.monotonic() + pause.backoff.next()
        pause.refusals += 1

    def refusals(self, uid: str) -> int:
        """How often in a row it was refused."""
        return self._pauses[uid].refusals if uid in self._pauses else 0

    def should_report(self, uid: str, message: str) -> bool:
        """Whether to report this explanation of the pause: it is new, or was last reported long ago."""
        pause, now = self._pause(uid), self._clock.monotonic()
        if not pause.is_worth_reporting(message, now):
            return False
        pause.reported, pause.reported_at = message, now
        return True

    def _pause(self, uid: str) -> _Pause:
        return self._pauses.setdefault(uid, _Pause(Backoff(longest=LONGEST, random=self._random)))

    def end(self, uid: str) -> None:
        """The comeback has made progress: drop its pause."""
        self._pauses.pop(uid, None)

    def forget_all_but(self, uids: Container[str]) -> None:
        """Drop the pauses of all other victims: their comebacks are over."""
        self._pauses = {uid: pause for uid, pause in self._pauses.items() if uid in uids}
