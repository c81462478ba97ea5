"""The first start of a timetable that finds a gap, where a booking's length depends on its start. Pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from booking.server.availability.calendars import instant, seconds
from booking.server.capacity.free_capacity import Timetable
from cluster.decide.booking_plan import ModelPlan, Timeline

_DAY: Final = 12 * 3600
"""Seconds: a longer booking may consist of calendar days."""
_CLOCKS: Final = 4 * 3600
"""Seconds by which clock changes make such a length longer at most: two hours forward and two hours back."""


class Load(Protocol):
    """What is in use over time, for a request that wants devices."""

    def first_gap(self, not_before: int, length: int) -> int | None:
        """The first instant from which the devices are available for that long; seconds."""
        ...

    def is_free(self, start: int, end: int) -> bool:
        """Whether the devices are available all the time."""
        ...

    def next_change(self, after: int) -> int | None:
        """When what is in use changes next."""
        ...


@dataclass(frozen=True, slots=True)
class Sum:
    """Any devices of the model, on whichever nodes."""

    load: Timeline
    ceiling: int
    """How many devices may be in use at most for the booking to fit."""

    def first_gap(self, not_before: int, length: int) -> int | None:
        """Where the load stays within the ceiling."""
        return self.load.first_gap(not_before, length, self.ceiling)

    def is_free(self, start: int, end: int) -> bool:
        """Whether the load stays within the ceiling all the time."""
        return self.load.most(start, end) <= self.ceiling

    def next_change(self, after: int) -> int | None:
        """When the load changes next; None when it never does."""
        return self.load.next_change(after)


@dataclass(frozen=True, slots=True)
class OneNode:
    """All devices on some node, without moving any booking."""

    plan: ModelPlan
    size: int
    """Number of devices needed on one node."""

    def first_gap(self, not_before: int, length: int) -> int | None:
        """The first gap on any node."""
        return self.plan.first_gap(not_before, length, self.size)

    def is_free(self, start: int, end: int) -> bool:
        """Whether some node has that many devices free all the time."""
        return any(node_plan.room(start, end) >= self.size for node_plan in self.plan.node_plans.values())

    def next_change(self, after: int) -> int | None:
        """When the load of any node changes next; None when none does."""
        turns = (node_plan.load.next_change(after) for node_plan in self.plan.node_plans.values())
        return min((turn for turn in turns if turn is not None), default=None)


def first_start(load: Load, timetable: Timetable, start: datetime) -> datetime | None:
    """The first start of the timetable, not before ``start``, with a gap for the booking; None: never."""
    while True:
        gap = load.first_gap(seconds(start), _least(timetable, start))
        if gap is None:
            return None
        start = timetable.start_at(max(start, instant(gap)))
        if load.is_free(seconds(start), max(seconds(start) + 1, seconds(timetable.end_of(start)))):
            return start
        turn = load.next_change(seconds(start))
        if turn is None:
            return None
        start = timetable.start_at(instant(turn))


def _least(timetable: Timetable, start: datetime) -> int:
    """The shortest length, in seconds, of the timetable's bookings that begin at or after ``start``."""
    length = seconds(timetable.end_of(start)) - seconds(start)
    return max(1, length - _CLOCKS if length >= _DAY else length)
