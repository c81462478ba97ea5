"""Load over time: step profiles of half-open intervals. Pure.

Load rises only at starts, so a condition that holds at ``start`` and at every start inside ``[start, end)``
holds throughout. If the load never exceeds the number of devices, every booking can have the same devices for
its whole life (interval graphs are perfect), so devices are chosen only when a booking is used.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import pairwise
from typing import Protocol

import msgspec


class Load(Protocol):
    """A number of devices in use in ``[start, end)``; ``Record`` implements it."""

    @property
    def start(self) -> datetime:
        """The first instant."""
        ...

    @property
    def end(self) -> datetime:
        """The first instant after the end."""
        ...

    @property
    def count(self) -> int:
        """Number of devices."""
        ...


class Lost(msgspec.Struct, frozen=True):
    """Devices that are unavailable in ``[start, end)``; a ``Load``."""

    start: datetime
    end: datetime
    count: int


class Step(msgspec.Struct, frozen=True):
    """A span in which nothing changes."""

    start: datetime
    end: datetime
    free: int
    """Devices that are not booked, for people *bookable*; 0 also where more are booked than there are."""
    capacity: int
    """Existing devices, minus those in maintenance then or granted to others."""


def peak(loads: Iterable[Load], start: datetime, end: datetime) -> int:
    """The highest number of devices booked at any instant of ``[start, end)``."""
    return max(used for moment, used in _profile(loads, start) if moment < end)


def availability(
    loads: Iterable[Load], start: datetime, end: datetime, *, capacity: int, lost: Iterable[Load] = ()
) -> tuple[Step, ...]:
    """The free devices in ``[start, end)``: steps without gaps.

    Args:
        loads: the bookings.
        start: of the span.
        end: of the span.
        capacity: existing devices.
        lost: those of them that are unavailable for some time.
    """
    booked, gone = dict(_profile(loads, start)), dict(_profile(lost, start))
    turns = sorted(moment for moment in booked.keys() | gone.keys() if moment < end)
    steps: list[Step] = []
    used = away = 0
    for moment, following in pairwise([*turns, end]):
        used, away = booked.get(moment, used), gone.get(moment, away)
        there = max(0, capacity - away)
        steps.append(Step(start=moment, end=following, free=max(0, there - used), capacity=there))
    return tuple(steps)


def _profile(loads: Iterable[Load], start: datetime) -> Iterator[tuple[datetime, int]]:
    """(instant, devices booked from then on): from ``start``, then wherever that changes."""
    changes: dict[datetime, int] = {start: 0}
    for load in loads:
        if load.end > start and load.start < load.end:
            begin = max(load.start, start)
            changes[begin] = changes.get(begin, 0) + load.count
            changes[load.end] = changes.get(load.end, 0) - load.count
    used = 0
    for moment in sorted(changes):
        if changes[moment] or moment == start:
            used += changes[moment]
            yield moment, used
