"""A stretch of load over time: some consecutive steps.

It is never changed, so any number of timelines share it together with what it has cached.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import sub
from typing import Final, NamedTuple

LENGTH: Final = 64
"""Number of steps of a stretch; a stretch is split when it has twice as many."""


class Gaps(NamedTuple):
    """When a stretch stays within a ceiling, if it exceeds the ceiling at some time."""

    until: int
    """The first instant at which it exceeds the ceiling."""
    longest: int
    """The longest time that it stays within the ceiling before it exceeds it again."""
    since: int | None
    """The instant from which it stays within the ceiling to its end; None if it exceeds it there."""


class Segment:
    """Instants, and the level that begins at each of them."""

    __slots__ = ("_gaps", "highest", "levels", "times")

    def __init__(self, times: Sequence[int], levels: Sequence[int]) -> None:
        self.times, self.levels = times, levels
        self.highest = max(levels)
        self._gaps: dict[int, Gaps] = {}
        """Ceiling -> gaps: a cache."""

    def gaps(self, ceiling: int) -> Gaps:
        """When it stays within a ceiling, which must be lower than its highest level."""
        found = self._gaps.get(ceiling)
        if found is None:
            begins, ends = self._within(ceiling)
            since = begins[-1] if len(begins) > len(ends) else None
            found = self._gaps[ceiling] = Gaps(ends[0], max(map(sub, ends, begins)), since)
        return found

    def first_gap(self, length: int, ceiling: int) -> int:
        """The beginning of the first gap that is so long and ends within the stretch; there must be one."""
        begins, ends = self._within(ceiling)
        return next(begin for begin, end in zip(begins, ends, strict=False) if end - begin >= length)

    def _within(self, ceiling: int) -> tuple[list[int], list[int]]:
        """(instants at which gaps begin, instants at which they end): a gap is within the ceiling.

        There is one of each for every step that exceeds the ceiling; the gap between two such steps in a row
        is empty. If the stretch ends within the ceiling, there is one more beginning.
        """
        times = self.times
        over = [index for index, level in enumerate(self.levels) if level > ceiling]
        begins = [times[0], *(times[index + 1] for index in over[:-1])]
        if over[-1] + 1 < len(times):
            begins.append(times[over[-1] + 1])
        return begins, [times[index] for index in over]


def cut(times: Sequence[int], levels: Sequence[int]) -> Iterator[Segment]:
    """Split steps into stretches of about the same length."""
    pieces = max(1, len(times) // LENGTH)
    if pieces == 1:
        yield Segment(times, levels)
        return
    for first, last in pairwise(len(times) * number // pieces for number in range(pieces + 1)):
        yield Segment(times[first:last], levels[first:last])
