"""Steps of load as geometry for SVG: paths in a box that is stretched to the available width. Pure.

The box is ``WIDE`` units for each day and ``height`` units high; its top is the number of existing devices,
or of booked ones if that is higher.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from booking.server.web.pages.axis import BINS, Axis
from booking.server.web.pages.load import Step

_PER_BIN: Final = 2
"""Units that are drawn as one."""
WIDE: Final = _PER_BIN * BINS
"""Units of a day: four per hour, finer than any screen."""
_MOST_LINES: Final = 16
"""Up to this number each device has its own line."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Paths and heights from which a template draws a chart in SVG."""

    width: int
    height: int
    mine: str
    """Path of an area; empty if there is none. Mine is at the bottom, others on top of it."""
    others: str
    blocked: str
    """Path of the area that hangs from the capacity line."""
    over: str
    """Path of the area of bookings beyond the capacity; empty if there are none."""
    lines: tuple[float, ...]
    """Heights of the lines between whole devices."""
    top: float
    """Height of the capacity line: 0, unless more is booked."""
    now: float | None
    """The position of now, None if it is not shown."""


def chart(found: Sequence[Step], axis: Axis, *, now_at: float | None, height: int) -> Chart:
    """The chart of steps that fill the axis."""
    _, _, mine, others, blocked, _, used, _ = zip(*_bins(found, axis), strict=True)
    capacity = found[0].capacity
    unit = height / max(1, capacity, *used)

    def area(low: Sequence[int], high: Sequence[int]) -> str:
        return _area(low, high, height, unit)

    booked = [sum(pair) for pair in zip(mine, others, strict=True)]
    room = [capacity - away for away in blocked]
    floor, roof = ([level] * len(booked) for level in (0, capacity))
    return Chart(
        width=axis.days * WIDE,
        height=height,
        mine=area(floor, mine),
        others=area(mine, booked),
        blocked=area(room, roof),
        over=area([min(pair) for pair in zip(room, booked, strict=True)], booked),
        lines=_lines(capacity, height, unit),
        top=_short(height - capacity * unit),
        now=None if now_at is None else _short(now_at * WIDE),
    )


def _lines(capacity: int, height: int, unit: float) -> tuple[float, ...]:
    every = max(1, ceil(capacity / _MOST_LINES))
    return tuple(_short(height - each * unit) for each in range(every, capacity, every))


def _bins(found: Sequence[Step], axis: Axis) -> list[Step]:
    """For each half hour its step with the most in use, so that a booking of minutes is visible."""
    edges = axis.edges
    bins = [found[0]] * (len(edges) - 1)
    most = [-1] * len(bins)
    last = 0
    for step in found:
        # A step that ends within a bin shares it with the next one.
        first = last if edges[last] == step.start else last - 1
        last = bisect_left(edges, step.end, first + 1)
        used = step.used
        for place in range(first, last):
            if used > most[place]:
                bins[place], most[place] = step, used
    return bins


def _area(lows: Sequence[int], highs: Sequence[int], height: int, unit: float) -> str:
    """Closed rectangles side by side, adjacent ones of equal height merged; none of height 0."""
    if lows == highs:
        return ""
    pieces: list[str] = []
    begin, count = 0, len(lows)
    for place in range(1, count + 1):
        if place < count and lows[place] == lows[begin] and highs[place] == highs[begin]:
            continue
        if lows[begin] != highs[begin]:
            bottom, top = (_short(height - level[begin] * unit) for level in (lows, highs))
            pieces.append(f"M{begin * _PER_BIN} {bottom:g}V{top:g}H{place * _PER_BIN}V{bottom:g}Z")
        begin = place
    return "".join(pieces)


def _short(value: float) -> float:
    return round(value, 2)
