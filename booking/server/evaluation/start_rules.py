"""When a request could be granted: the first start that every rule and the free capacity allow. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from booking import durations
from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server import grid
from booking.server.capacity.free_capacity import CapacityRequest, FreeCapacity
from booking.server.records import Violation
from booking.server.rule_context import RuleContext
from booking.server.rules import RULES
from cluster.objects.bookings import Topology

_MOST_TURNS: Final = 1000
"""Rules and free capacity in turn delay the start to an event of the calendar; the search ends after so many
turns."""
_SHORT: Final = 20 * 3600
"""Seconds: less than a day in any time zone."""
_SECOND: Final = timedelta(seconds=1)
_NEVER: Final = datetime.max.replace(microsecond=0, tzinfo=UTC) - _SECOND
"""Later than the end of any booking."""


def broken(case: RuleContext) -> Iterator[Violation]:
    """The rules that a case breaks."""
    for rule in RULES:
        violation = rule(case)
        if violation:
            yield violation


def earliest_start(case: RuleContext, free_capacity: FreeCapacity, want: CapacityRequest) -> datetime | None:
    """The first instant at which such a booking, requested then, would keep every rule and fit.

    It is as long as the case, or as the limits allow. None: never, or waiting does not help.
    """
    return _first(case, free_capacity, want, case.now, is_requested_then=True) if _can_wait(case) else None


def next_start(
    case: RuleContext, free_capacity: FreeCapacity, want: CapacityRequest, not_before: datetime
) -> datetime | None:
    """The first start at or after an instant that would be accepted now; None if there is none."""
    return _first(case, free_capacity, want, not_before, is_requested_then=False) if _can_wait(case) else None


def wanted(case: RuleContext, topology: Topology) -> CapacityRequest:
    """The devices that a case requests of the free capacity."""
    return CapacityRequest(count=case.count, topology=topology, memory=case.memory, buffer=case.limits.buffer)


def allowed_start(moment: datetime, now: datetime, limits: Limits) -> datetime:
    """The first start at or after an instant that is on the policy's steps; ``now`` is always allowed."""
    step = limits.granularity
    return moment if step is None or moment == now else grid.at_or_after(moment, step, limits.tz)


def is_free(case: RuleContext, free_capacity: FreeCapacity, want: CapacityRequest) -> bool:
    """Whether the devices of a case are free."""
    return free_capacity.lacking(want, max(case.start, case.now), case.end) is None


def is_plainly_free(case: RuleContext, free_capacity: FreeCapacity, want: CapacityRequest) -> bool:
    """A quick ``is_free``: it denies some bookings for which others would have to move."""
    once = _Once(max(case.start, case.now), case.end)
    return free_capacity.earliest(want, once) == once.not_before


def shortage(case: RuleContext, free_capacity: FreeCapacity, want: CapacityRequest) -> Iterator[Violation]:
    """The missing devices of a case; nothing if enough are free."""
    start = max(case.start, case.now)
    lack = free_capacity.lacking(want, start, case.end)
    if lack:
        length = durations.between(start, case.end, case.limits.tz)
        yield Violation(
            rule="capacity",
            message=lack.message,
            limit=lack.free,
            actual=want.count,
            earliest_start=free_capacity.earliest(want, _Exactly(case.now, length, case.limits)),
        )


def end_of(start: datetime, length: Duration, limits: Limits) -> datetime:
    """The end of a booking of about this length: within the limits, and after whole steps."""
    step, zone = limits.granularity, limits.tz
    shortest, longest = limits.shortest, limits.longest
    if step is not None:
        length, shortest = (_rounded_up(start, each, step, zone) for each in (length, shortest))
        longest = grid.rounded_down(_in_days(start, longest, zone), step)
    end = max(durations.after(start, length, zone), durations.after(start, shortest, zone))
    return min(end, durations.after(start, longest, zone))


def _rounded_up(start: datetime, length: Duration, step: Duration, zone: tzinfo) -> Duration:
    """The shortest length in whole steps from a start on; a day shortened by a clock change counts, too."""
    length = _in_days(start, length, zone)
    rounded = grid.rounded_up(length, step)
    if rounded.seconds < _SHORT and not step.days:
        return rounded
    days = Duration(length.days + bool(length.seconds))
    return min(rounded, days, key=lambda each: durations.after(start, each, zone))


def _in_days(start: datetime, length: Duration, zone: tzinfo) -> Duration:
    """A length in calendar days and seconds from a start on: 24 hours are not a day where clocks change."""
    if length.seconds < _SHORT:
        return length
    return durations.between(start, durations.after(start, length, zone), zone)


@dataclass(frozen=True, slots=True)
class _Exactly:
    """Any start, always with the same length: only the free capacity matters."""

    not_before: datetime
    length: Duration
    limits: Limits

    def start_at(self, moment: datetime) -> datetime:
        """The instant itself: any start is allowed."""
        return moment

    def end_of(self, start: datetime) -> datetime:
        """The end of a booking of the requested length."""
        return durations.after(start, self.length, self.limits.tz)


@dataclass(frozen=True, slots=True)
class _Once:
    """A single start and end; the next start is never."""

    not_before: datetime
    end: datetime

    def start_at(self, moment: datetime) -> datetime:
        """The only start, or never if it has passed."""
        return self.not_before if moment <= self.not_before else _NEVER

    def end_of(self, start: datetime) -> datetime:
        """The only end; a second later for any other start."""
        return self.end if start == self.not_before else start + _SECOND


@dataclass(frozen=True, slots=True)
class _Allowed:
    """Starts now or on the policy's steps, with lengths within its limits."""

    now: datetime
    not_before: datetime
    length: Duration
    limits: Limits

    def start_at(self, moment: datetime) -> datetime:
        """The instant itself, or the next step."""
        return allowed_start(moment, self.now, self.limits)

    def end_of(self, start: datetime) -> datetime:
        """The end of a booking of the requested length, within the limits."""
        return end_of(start, self.length, self.limits)


def _can_wait(case: RuleContext) -> bool:
    """Whether the request makes sense and may begin at another time."""
    has_begun = case.changing is not None and case.changing.state(case.now) != "planned"
    return not has_begun and case.since < case.end


def _first(
    case: RuleContext,
    free_capacity: FreeCapacity,
    want: CapacityRequest,
    not_before: datetime,
    *,
    is_requested_then: bool,
) -> datetime | None:
    """The first start that both rules and free capacity leave as it is, tried in turn."""
    length, limit = case.length, durations.after(case.now, case.limits.farthest, case.limits.tz)
    start = not_before
    for _ in range(_MOST_TURNS):
        timetable = _Allowed(case.now, start, length, case.limits)
        start = timetable.start_at(start)
        end = timetable.end_of(start)
        if not start < end <= limit:
            # The longest booking is shorter than one step, or the start is too far ahead.
            return None
        later = _after_the_rules(case.at(start, end, now=start if is_requested_then else case.now))
        if later is None:
            return None
        if later == start:
            found = free_capacity.earliest(want, _Allowed(case.now, start, length, case.limits))
            if found is None or found == start:
                return found
            later = found
        start = later
    return None


def _after_the_rules(case: RuleContext) -> datetime | None:
    """The start itself if it breaks no rule, else the first that the broken rules allow; None: never."""
    start = case.start
    for violation in broken(case):
        if violation.earliest_start is None or violation.earliest_start <= case.start:
            return None
        start = max(start, violation.earliest_start)
    return start
