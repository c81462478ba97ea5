"""Avoids repeating a request before its effect is visible: our watch lags behind our writes."""

from collections.abc import Hashable
from typing import Final

from cluster.process.clock import Clock

AGAIN_AFTER: Final = 1.0
"""Seconds before the same request is sent again."""


class RecentRequests:
    """The recent requests. Forgetting one costs a repeated request and nothing else."""

    def __init__(self, clock: Clock, again_after: float = AGAIN_AFTER) -> None:
        self._clock = clock
        self._again_after = again_after
        self._at: dict[Hashable, float] = {}

    def is_due(self, key: Hashable) -> bool:
        """Whether the request may be sent now; it then counts as sent."""
        now = self._clock.monotonic()
        self._at = {known: at for known, at in self._at.items() if now - at < self._again_after}
        if key in self._at:
            return False
        self._at[key] = now
        return True

    def forget(self, key: Hashable) -> None:
        """The request had no effect, and may be sent again at once."""
        self._at.pop(key, None)
