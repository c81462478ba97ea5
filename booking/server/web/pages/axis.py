"""Days side by side, each equally wide: maps an instant to its place between left and right edge. Pure.

A day of 23 or 25 hours is as wide as any other, so that the columns of every row and the headings above them
are the same.
"""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Final

BINS: Final = 48
"""Of a day: half hours, unless a clock changes on it."""


class Axis:
    """The days between ``midnights``, which are sorted; the last is the end."""

    def __init__(self, midnights: Sequence[datetime]) -> None:
        self.midnights = tuple(midnights)

    @property
    def start(self) -> datetime:
        """The first instant shown: the left edge."""
        return self.midnights[0]

    @property
    def end(self) -> datetime:
        """The first instant after those shown: the right edge."""
        return self.midnights[-1]

    @property
    def days(self) -> int:
        """The number of days."""
        return len(self.midnights) - 1

    @cached_property
    def edges(self) -> tuple[datetime, ...]:
        """The beginnings of the bins, and the end of the last one."""
        return (
            *(
                begin + (following - begin) * place / BINS
                for begin, following in pairwise(self.midnights)
                for place in range(BINS)
            ),
            self.end,
        )

    def shows(self, instant: datetime) -> bool:
        """Whether the instant lies between the edges."""
        return self.start <= instant < self.end

    def at(self, instant: datetime) -> float:
        """Days from the left edge; an instant outside is moved to the edge."""
        if instant <= self.start:
            return 0.0
        if instant >= self.end:
            return float(self.days)
        day = bisect_right(self.midnights, instant) - 1
        begin, following = self.midnights[day], self.midnights[day + 1]
        return day + (instant - begin) / (following - begin)
