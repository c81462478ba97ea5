"""Not asking the same twice while the answer is on its way: what is written is not seen at once."""

from collections.abc import Hashable
from typing import Final

from cluster.process.clock import Clock

AGAIN_AFTER: Final = 1.0
"""Seconds."""


class RecentRequests:
    """What was asked lately. Forgetting it costs a repeated request and nothing else."""

    def __init__(self, clock: Clock, again_after: float = AGAIN_AFTER) -> None:
        self._clock = clock
        self._again_after = again_after
        self._at: dict[Hashable, float] = {}

    def is_due(self, key: Hashable) -> bool:
        """Whether it may be asked now; it then counts as asked."""
        now = self._clock.monotonic()
        self._at = {known: at for known, at in self._at.items() if now - at < self._again_after}
        if key in self._at:
            return False
        self._at[key] = now
        return True

    def forget(self, key: Hashable) -> None:
        """What was asked has come to nothing, and may be asked again at once."""
        self._at.pop(key, None)
