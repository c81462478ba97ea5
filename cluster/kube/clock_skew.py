"""Whether this machine's clock can be trusted, compared with the API server's (law L6)."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

LARGEST_SKEW: Final = timedelta(seconds=30)
"""Difference between our clock and the API server's above which nothing is decided."""


def clock_skew_reason(skew: Callable[[], timedelta | None]) -> Callable[[], str | None]:
    """A check of our clock that returns None if it is right, else a message.

    Args:
        skew: returns the API server's clock minus ours; None before its first answer.
    """

    def unready_reason() -> str | None:
        difference = skew()
        if difference is None or abs(difference) <= LARGEST_SKEW:
            return None
        return (
            f"The clock of this machine and the API server's differ by more than"
            f" {LARGEST_SKEW.total_seconds():.0f} seconds."
        )

    return unready_reason
