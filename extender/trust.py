"""Whether the extender may decide now: the checks of law L6 about the whole cluster, in one answer."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from extender.state import Readiness

LARGEST_SKEW: Final = timedelta(seconds=30)
"""Difference between our clock and the API server's above which nothing is decided (law L6)."""


def clock_obstacle(skew: Callable[[], timedelta | None]) -> Readiness:
    """A check of our clock against the API server's.

    Args:
        skew: the API server's clock minus ours, None before its first answer.
    """

    def obstacle() -> str | None:
        difference = skew()
        if difference is None or abs(difference) <= LARGEST_SKEW:
            return None
        return (
            f"The clock of this machine and the API server's differ by more than"
            f" {LARGEST_SKEW.total_seconds():.0f} seconds."
        )

    return obstacle


def first_obstacle(*checks: Readiness) -> Readiness:
    """The first thing that is wrong, None when nothing is."""
    return lambda: next((trouble for check in checks if (trouble := check())), None)
