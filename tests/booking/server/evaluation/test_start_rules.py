"""When a request could be granted: steps, lengths, the first start, and what is missing."""

from datetime import UTC, datetime, timedelta

import pytest

from booking import durations
from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.capacity.free_capacity import FreeCapacity
from booking.server.evaluation import start_rules
from booking.server.records import Record
from booking.server.rule_context import RuleContext
from tests.fakes.objects import A100
from tests.fakes.plain_capacity import plain_capacities
from tests.fakes.records import CLUSTER, a_record, day
from tests.fakes.rule_cases import a_case

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
SIX_HOURS = Duration(seconds=6 * 3600)
RUNNING = a_record(day(-2), day(3))
LAST = durations.after(day(0), Limits().farthest, Limits().tz)


def free(*records: Record) -> FreeCapacity:
    """Six A100s, and what others have booked of them."""
    return plain_capacities(records, CLUSTER)(A100)


def full(start: datetime, end: datetime, count: int = 6) -> Record:
    return a_record(start, end, user="bob", id="b-bob", count=count)


def first(case: RuleContext, *records: Record, not_before: datetime | None = None) -> list[datetime | None]:
    """The earliest start of such a booking, requested then, and the next start of one requested now."""
    want = start_rules.wanted(case, "any")
    return [
        start_rules.earliest_start(case, free(*records), want),
        start_rules.next_start(case, free(*records), want, not_before or case.now),
    ]


# --- starts on steps, and lengths ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "now", "step", "allowed"),
    [
        (day(1) + SECOND, day(0), None, day(1) + SECOND),
        (day(1), day(0), Duration(seconds=3600), day(1)),
        (day(1) + SECOND, day(0), Duration(seconds=3600), day(1) + HOUR),
        (day(1) - SECOND, day(0), Duration(seconds=3600), day(1)),
        (day(0) + SECOND, day(0) + SECOND, Duration(seconds=3600), day(0) + SECOND),
        (day(0) + 2 * SECOND, day(0) + SECOND, Duration(seconds=3600), day(0) + HOUR),
        (day(1), day(0), Duration(days=1), day(1) + 15 * HOUR),
    ],
)
def test_a_booking_starts_on_a_step_or_now(
    moment: datetime, now: datetime, step: Duration | None, allowed: datetime
) -> None:
    assert start_rules.allowed_start(moment, now, Limits(granularity=step)) == allowed


@pytest.mark.parametrize(
    ("length", "limits", "lasts"),
    [
        (Duration(days=2), Limits(), timedelta(days=2)),
        (Duration(seconds=1), Limits(), timedelta(days=1)),
        (Duration(days=14), Limits(), timedelta(days=14)),
        (Duration(days=14, seconds=1), Limits(), timedelta(days=14)),
        (Duration(days=1, seconds=3600), Limits(granularity=SIX_HOURS), timedelta(days=1, hours=6)),
        (Duration(days=1), Limits(granularity=SIX_HOURS), timedelta(days=1)),
        (Duration(), Limits(granularity=SIX_HOURS, shortest=Duration(seconds=5 * 3600)), timedelta(hours=6)),
        (
            Duration(days=9),
            Limits(granularity=SIX_HOURS, longest=Duration(days=2, seconds=7 * 3600)),
            timedelta(days=2, hours=6),
        ),
        (Duration(days=1, seconds=1), Limits(granularity=Duration(days=1)), timedelta(days=2)),
        (
            Duration(days=1),
            Limits(
                granularity=Duration(days=1),
                shortest=Duration(seconds=3600),
                longest=Duration(seconds=6 * 3600),
            ),
            timedelta(),
        ),
    ],
    ids=[
        "as requested",
        "the shortest",
        "exactly the longest",
        "the longest",
        "the next step",
        "on a step",
        "the shortest on a step",
        "the longest on a step",
        "whole days",
        "none: no step is within the longest",
    ],
)
def test_a_booking_lasts_as_requested_within_the_limits_and_for_whole_steps(
    length: Duration, limits: Limits, lasts: timedelta
) -> None:
    assert start_rules.end_of(day(1), length, limits) == day(1) + lasts


@pytest.mark.parametrize(
    ("start", "length", "step", "lasts"),
    [
        ("2026-03-28T12:00Z", Duration(days=1), None, timedelta(hours=23)),
        ("2026-03-28T12:00Z", Duration(seconds=24 * 3600), None, timedelta(hours=24)),
        ("2026-10-24T12:00Z", Duration(days=1), None, timedelta(hours=25)),
        ("2026-03-28T12:00Z", Duration(seconds=24 * 3600), SIX_HOURS, timedelta(hours=29)),
        ("2026-10-24T12:00Z", Duration(seconds=24 * 3600), SIX_HOURS, timedelta(hours=24)),
        ("2026-10-24T12:00Z", Duration(seconds=25 * 3600), SIX_HOURS, timedelta(hours=25)),
    ],
    ids=["a day of 23 hours", "24 hours", "a day of 25 hours", "a day and 6 hours", "4 steps", "a long day"],
)
def test_days_are_as_long_as_the_clocks_make_them_and_hours_are_not(
    start: str, length: Duration, step: Duration | None, lasts: timedelta
) -> None:
    """Summer time begins on 29 March and ends on 25 October."""
    limits = Limits(zone="Europe/Stockholm", granularity=step, shortest=Duration(seconds=3600))
    begins = datetime.fromisoformat(start)
    assert start_rules.end_of(begins, length, limits) == begins + lasts


# --- free devices ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "booked", "is_free"),
    [
        (a_case(day(1), day(3)), full(day(3), day(9)), True),
        (a_case(day(1), day(3)), full(day(3) - SECOND, day(9)), False),
        (a_case(day(1), day(3)), full(day(-1), day(1)), True),
        (a_case(day(1), day(3)), full(day(-1), day(1) + SECOND), False),
        (a_case(day(1), day(3)), full(day(0), day(9), count=5), True),
        (a_case(day(1), day(3), limits=Limits(buffer=1)), full(day(0), day(9), count=5), False),
        (a_case(day(1), day(3), count=2), full(day(0), day(9), count=5), False),
        (a_case(day(-2), day(5), changing=RUNNING), full(day(-3), day(0)), True),
        (a_case(day(-2), day(5), changing=RUNNING), full(day(-3), day(0) + SECOND), False),
    ],
    ids=[
        "until others begin",
        "longer",
        "once others end",
        "earlier",
        "the last one",
        "the buffer",
        "one too many",
        "the past does not count",
        "from now on",
    ],
)
def test_l5_devices_must_be_free_from_the_start_or_from_now_on_to_the_end(
    case: RuleContext, booked: Record, *, is_free: bool
) -> None:
    want = start_rules.wanted(case, "any")
    assert start_rules.is_free(case, free(booked), want) is is_free
    assert start_rules.is_plainly_free(case, free(booked), want) is is_free
    assert (not list(start_rules.shortage(case, free(booked), want))) is is_free


def test_a_shortage_names_what_is_free_what_is_asked_for_and_the_first_start_from_now_on() -> None:
    case = a_case(day(5), day(7), count=3)
    (violation,) = start_rules.shortage(
        case, free(full(day(1), day(9), count=4)), start_rules.wanted(case, "any")
    )
    assert (violation.rule, violation.limit, violation.actual) == ("capacity", 2, 3)
    assert violation.earliest_start == day(9), "before it, there is only a day"

    short = a_case(day(5), day(6), count=3)
    (violation,) = start_rules.shortage(
        short, free(full(day(1), day(9), count=4)), start_rules.wanted(short, "any")
    )
    assert violation.earliest_start == day(0), "earlier than asked for"


def test_a_running_booking_needs_devices_for_the_rest_of_its_time() -> None:
    case = a_case(day(-2), day(5), count=2, changing=RUNNING)
    (violation,) = start_rules.shortage(case, free(full(day(-2), day(4))), start_rules.wanted(case, "any"))
    assert violation.earliest_start == day(4)
    assert "from 2026-03-02 09:00 UTC to 2026-03-07 09:00 UTC" in violation.message


# --- the first start -------------------------------------------------------------------------------------


def test_a_start_beyond_the_horizon_can_be_requested_later_and_not_now() -> None:
    case = a_case(limits=Limits(horizon=Duration(days=10)))
    assert first(case, full(day(0), day(10))) == [day(10), day(10)]
    assert first(case, full(day(0), day(10) + SECOND)) == [day(10) + SECOND, None]


def test_the_next_start_is_not_before_the_given_instant_and_the_earliest_is_from_now_on() -> None:
    assert first(a_case(day(5), day(7)), not_before=day(3)) == [day(0), day(3)]
    assert first(a_case(day(5), day(7)), full(day(1), day(4)), not_before=day(3)) == [day(4), day(4)]


def test_a_first_start_waits_for_the_rules_and_for_free_devices_in_turn() -> None:
    past = a_record(day(-5), day(-3))
    case = a_case(history=[past])
    assert first(case) == [day(11), day(11)], "two weeks after the last one"
    assert first(case, full(day(12), day(15))) == [day(15), day(15)]
    assert first(case, full(day(13), day(15))) == [day(11), day(11)], "just long enough"


def test_a_first_start_is_on_a_step() -> None:
    case = a_case(limits=Limits(granularity=Duration(seconds=3600)))
    assert first(case, full(day(0), day(2) + SECOND)) == [day(2) + HOUR, day(2) + HOUR]


@pytest.mark.parametrize(("late", "found"), [(timedelta(), True), (SECOND, False)])
def test_no_first_start_is_so_late_that_the_booking_ends_beyond_the_calendar(
    late: timedelta, *, found: bool
) -> None:
    case = a_case(day(1), day(3))
    latest = LAST - timedelta(days=2) + late
    assert first(case, full(day(0), latest)) == [latest if found else None] * 2


@pytest.mark.parametrize(
    "case",
    [
        a_case(day(-2), day(5), changing=RUNNING),
        a_case(day(3), day(3)),
        a_case(day(3), day(2)),
        a_case(count=3, limits=Limits(max_gpus_per_booking=2)),
    ],
    ids=["it has begun", "no length", "ends before it starts", "a rule that no time changes"],
)
def test_a_request_that_no_later_start_helps_has_no_first_start(case: RuleContext) -> None:
    assert first(case) == [None, None]


def test_a_planned_booking_may_be_moved_to_its_first_start() -> None:
    planned = a_record(day(2), day(4))
    assert first(a_case(day(1), day(3), changing=planned), full(day(0), day(3))) == [day(3), day(3)]


def test_instants_are_in_utc() -> None:
    (earliest, following) = first(a_case(limits=Limits(granularity=Duration(days=1), zone="Asia/Tokyo")))
    assert earliest == following == day(0), "now is always allowed"
    (later, _) = first(
        a_case(limits=Limits(granularity=Duration(days=1), zone="Asia/Tokyo")), full(day(0), day(1))
    )
    assert later == datetime(2026, 3, 3, 15, tzinfo=UTC)
