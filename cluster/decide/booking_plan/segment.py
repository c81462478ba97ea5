"""A stretch of load over time: some steps in a row.

It is never changed, so any number of calendars share it, with all that has been found out about it.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import sub
from typing import Final, NamedTuple

LENGTH: Final = 64
"""Steps of a stretch, or up to twice as many."""


class Gaps(NamedTuple):
    """When a stretch stays within a ceiling that it exceeds at some time."""

    until: int
    """The first instant at which it exceeds it."""
    longest: int
    """How long it stays within, at most, before it exceeds it again."""
    since: int | None
    """From when on it stays within to its end; None where it exceeds it there."""


class Segment:
    """Instants, and the level from each of them on."""

    __slots__ = ("_gaps", "highest", "levels", "times")

    def __init__(self, times: Sequence[int], levels: Sequence[int]) -> None:
        self.times, self.levels = times, levels
        self.highest = max(levels)
        self._gaps: dict[int, Gaps] = {}
        """Ceiling -> gaps, of ceilings that were asked for."""

    def gaps(self, ceiling: int) -> Gaps:
        """When it stays within a ceiling, which is lower than its highest level."""
        found = self._gaps.get(ceiling)
        if found is None:
            begins, ends = self._within(ceiling)
            since = begins[-1] if len(begins) > len(ends) else None
            found = self._gaps[ceiling] = Gaps(ends[0], max(map(sub, ends, begins)), since)
        return found

    def first_gap(self, length: int, ceiling: int) -> int:
        """When the first gap begins that is so long and ends within the stretch; there is one."""
        begins, ends = self._within(ceiling)
        return next(begin for begin, end in zip(begins, ends, strict=False) if end - begin >= length)

    def _within(self, ceiling: int) -> tuple[list[int], list[int]]:
        """(when it begins to be within a ceiling, when it exceeds it again).

        One of each for every step that exceeds it: nothing lies between two in a row. One more beginning,
        where it is within at the end.
        """
        times = self.times
        over = [index for index, level in enumerate(self.levels) if level > ceiling]
        begins = [times[0], *(times[index + 1] for index in over[:-1])]
        if over[-1] + 1 < len(times):
            begins.append(times[over[-1] + 1])
        return begins, [times[index] for index in over]


def cut(times: Sequence[int], levels: Sequence[int]) -> Iterator[Segment]:
    """Stretches of about the same length."""
    pieces = max(1, len(times) // LENGTH)
    if pieces == 1:
        yield Segment(times, levels)
        return
    for first, last in pairwise(len(times) * number // pieces for number in range(pieces + 1)):
        yield Segment(times[first:last], levels[first:last])
