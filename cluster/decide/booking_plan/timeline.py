"""The number of devices in use over time: an immutable step function that is cheap to extend and to query.

It consists of stretches, which it shares with the timelines that were made from it. So a timeline with a
little more load costs a list and the stretches that differ, and what a stretch has cached serves all of them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain, islice, pairwise
from typing import Final

from cluster.decide.booking_plan.segment import LENGTH, Segment, cut

BEGINNING: Final = -(2**62)
"""Before every instant."""
INDEFINITELY: Final = 2**62
"""After every instant."""

Load = tuple[int, int, int]
"""``(start, end, amount)``: half-open."""


class Timeline:
    """Load over time. It is never changed."""

    __slots__ = ("_begins", "_stretches")

    def __init__(self) -> None:
        """Zero at every instant."""
        self._stretches = [Segment((BEGINNING,), (0,))]
        self._begins = [BEGINNING]
        """The first instant of each stretch."""

    @classmethod
    def of(cls, loads: Iterable[Load]) -> "Timeline":
        """The sum of these loads."""
        changes: dict[int, int] = {}
        for start, end, amount in loads:
            if start < end:
                changes[start] = changes.get(start, 0) + amount
                changes[end] = changes.get(end, 0) - amount
        turns = sorted((at, by) for at, by in changes.items() if by)
        times = [BEGINNING, *(at for at, _ in turns)]
        made = cls()
        return made._with(0, 1, times, list(accumulate((by for _, by in turns), initial=0)))

    def plus(self, start: int, end: int, amount: int) -> "Timeline":
        """A copy with so much more in ``[start, end)``, or less if the amount is negative."""
        if start >= end or not amount:
            return self
        # From the stretch with the step before the change; too few steps are joined with the stretch before.
        low, high = bisect_left(self._begins, start) - 1, bisect_right(self._begins, end)
        if low and sum(len(stretch.times) for stretch in self._stretches[low:high]) < LENGTH // 2:
            low -= 1
        parts = self._stretches[low:high]
        times = list(chain.from_iterable(stretch.times for stretch in parts))
        levels = list(chain.from_iterable(stretch.levels for stretch in parts))
        first, last = _turn(times, levels, start), _turn(times, levels, end)
        levels[first:last] = [level + amount for level in levels[first:last]]
        for index in (last, first):
            if levels[index] == levels[index - 1]:
                del levels[index], times[index]
        return self._with(low, high, times, levels)

    def _with(self, low: int, high: int, times: list[int], levels: list[int]) -> "Timeline":
        """A copy with these steps in place of the stretches from ``low`` to ``high``."""
        made, stretches = Timeline(), list(cut(times, levels))
        made._stretches = [*self._stretches[:low], *stretches, *self._stretches[high:]]
        made._begins = [*self._begins[:low], *(each.times[0] for each in stretches), *self._begins[high:]]
        return made

    # --- asking --------------------------------------------------------------------------------------
    def most(self, start: int, end: int) -> int:
        """The highest level in ``[start, end)``, which must not be empty."""
        first, last = bisect_right(self._begins, start) - 1, bisect_left(self._begins, end) - 1
        head, tail = self._stretches[first], self._stretches[last]
        begin, stop = bisect_right(head.times, start) - 1, bisect_left(tail.times, end)
        if first == last:
            return max(head.levels[begin:stop])
        between = (stretch.highest for stretch in self._stretches[first + 1 : last])
        return max(*head.levels[begin:], *tail.levels[:stop], *between)

    def busiest(self, start: int, end: int) -> tuple[int, int]:
        """(the first instant at which ``[start, end)`` is fullest, how full it is)."""
        level = self.most(start, end)
        return next(turn for turn in self._levels_in(start, end) if turn[1] == level)

    def levels_in(self, start: int, end: int) -> list[tuple[int, int]]:
        """(instant, level from then on) in ``[start, end)``, the first one at ``start``."""
        return list(self._levels_in(start, end))

    def spans(self) -> list[Load]:
        """``(start, end, level)`` wherever the level is not zero."""
        times = chain.from_iterable(stretch.times for stretch in self._stretches)
        levels = chain.from_iterable(stretch.levels for stretch in self._stretches)
        return [
            (start, end, level) for (start, end), level in zip(pairwise(times), levels, strict=False) if level
        ]

    def next_change(self, after: int) -> int | None:
        """The first instant after this one at which it changes."""
        following = bisect_right(self._begins, after)
        times = self._stretches[following - 1].times
        index = bisect_right(times, after)
        if index < len(times):
            return times[index]
        return self._begins[following] if following < len(self._begins) else None

    def last_change(self) -> int:
        """From then on it does not change any more."""
        return self._stretches[-1].times[-1]

    def first_gap(self, not_before: int, length: int, ceiling: int) -> int | None:
        """The first instant from ``not_before`` on after which the level is within ``ceiling`` for so long.

        Returns:
            ``not_before`` or an instant at which the level falls; None if there is no such instant.
        """
        since: int | None = None
        for stretch in self._from(not_before):
            begin = stretch.times[0]
            if since is not None and begin - since >= length:
                return since
            if stretch.highest <= ceiling:
                since = begin if since is None else since
                continue
            gaps = stretch.gaps(ceiling)
            if since is not None and gaps.until - since >= length:
                return since
            if gaps.longest >= length:
                return stretch.first_gap(length, ceiling)
            since = gaps.since
        return since

    def _from(self, start: int) -> Iterator[Segment]:
        """The stretches from an instant on, the first of them cut."""
        following = bisect_right(self._begins, start)
        here = self._stretches[following - 1]
        index = bisect_right(here.times, start)
        yield Segment((start, *here.times[index:]), here.levels[index - 1 :])
        yield from islice(self._stretches, following, None)

    def _levels_in(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The values of ``levels_in``, computed as far as they are read."""
        following = bisect_right(self._begins, start)
        here = self._stretches[following - 1]
        index = bisect_right(here.times, start)
        yield start, here.levels[index - 1]
        for turn in zip(here.times[index:], here.levels[index:], strict=True):
            if turn[0] >= end:
                return
            yield turn
        for stretch in islice(self._stretches, following, None):
            for turn in zip(stretch.times, stretch.levels, strict=True):
                if turn[0] >= end:
                    return
                yield turn


def _turn(times: list[int], levels: list[int], at: int) -> int:
    """The index of the step that begins at this instant; a missing one is inserted."""
    index = bisect_left(times, at)
    if index == len(times) or times[index] != at:
        times.insert(index, at)
        levels.insert(index, levels[index - 1])
    return index
