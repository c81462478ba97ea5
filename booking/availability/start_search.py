"""The first start of a timetable that finds a gap; from each start a booking is differently long. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

from booking.availability.calendars import seconds
from booking.free_capacity import Timetable
from cluster.decide.booking_plan import ModelPlan, Timeline

_DAY: Final = 12 * 3600
"""What is longer may be made of calendar days."""
_CLOCKS: Final = 4 * 3600
"""So many seconds at most do the clocks make one such length longer than another: two hours forward and two
hours back."""


class Load(Protocol):
    """What is in use over time, as somebody sees it who wants devices."""

    def first_gap(self, not_before: int, length: int) -> int | None:
        """The first instant from which they can be had for so long."""
        ...

    def is_free(self, start: int, end: int) -> bool:
        """Whether they can be had all the time."""
        ...

    def next_turn(self, after: int) -> int | None:
        """When what is in use changes next."""
        ...


@dataclass(frozen=True, slots=True)
class Sum:
    """All nodes together."""

    load: Timeline
    ceiling: int
    """As much as may be in use."""

    def first_gap(self, not_before: int, length: int) -> int | None:
        """Where the load stays within the ceiling."""
        return self.load.first_gap(not_before, length, self.ceiling)

    def is_free(self, start: int, end: int) -> bool:
        """Whether it stays within it."""
        return self.load.most(start, end) <= self.ceiling

    def next_turn(self, after: int) -> int | None:
        """The load's."""
        return self.load.next_turn(after)


@dataclass(frozen=True, slots=True)
class OneNode:
    """Some node, without moving any booking."""

    plan: ModelPlan
    size: int
    """As many devices as are wanted of it."""

    def first_gap(self, not_before: int, length: int) -> int | None:
        """The first one of any node."""
        return self.plan.first_gap(not_before, length, self.size)

    def is_free(self, start: int, end: int) -> bool:
        """Whether one node has them."""
        return any(node_plan.room(start, end) >= self.size for node_plan in self.plan.node_plans.values())

    def next_turn(self, after: int) -> int | None:
        """Of any node."""
        turns = (node_plan.load.next_turn(after) for node_plan in self.plan.node_plans.values())
        return min((turn for turn in turns if turn is not None), default=None)


def first_start(load: Load, timetable: Timetable, start: datetime) -> datetime | None:
    """The first start of the timetable, from one of them on, with a gap for the booking; None: never."""
    while True:
        gap = load.first_gap(seconds(start), _least(timetable, start))
        if gap is None:
            return None
        start = timetable.start_at(max(start, instant(gap)))
        if load.is_free(seconds(start), max(seconds(start) + 1, seconds(timetable.end_of(start)))):
            return start
        turn = load.next_turn(seconds(start))
        if turn is None:
            return None
        start = timetable.start_at(instant(turn))


def instant(at: int) -> datetime:
    """An instant, as a booking plan counts it."""
    return datetime.fromtimestamp(at, UTC)


def _least(timetable: Timetable, start: datetime) -> int:
    """How long the timetable's bookings are at least, from a start on."""
    length = seconds(timetable.end_of(start)) - seconds(start)
    return max(1, length - _CLOCKS if length >= _DAY else length)
