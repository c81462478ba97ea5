from datetime import UTC, datetime, timedelta

import pytest

from booking.policy.limits import Limits
from booking.server.records import Violation
from booking.server.rules.longest import longest
from tests.fakes.records import a_record, day
from tests.fakes.rule_cases import a_case

SECOND = timedelta(seconds=1)


def broken(length: timedelta) -> Violation | None:
    return longest(a_case(day(1), day(1) + length))


def test_fourteen_days_are_allowed_and_a_second_more_is_too_long() -> None:
    assert broken(timedelta(days=14)) is None
    violation = broken(timedelta(days=14, seconds=1))
    assert violation
    assert (violation.rule, violation.limit, violation.actual) == ("longest", "P14D", "P14DT1S")
    assert violation.message == "A booking lasts at most 14 days, this one 14 days 1 second."
    assert violation.earliest_start is None


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (datetime(2026, 10, 17, 22, tzinfo=UTC), datetime(2026, 10, 31, 23, tzinfo=UTC)),
        (datetime(2026, 3, 21, 23, tzinfo=UTC), datetime(2026, 4, 4, 22, tzinfo=UTC)),
    ],
)
def test_fourteen_days_are_allowed_when_the_clocks_change_in_between(start: datetime, end: datetime) -> None:
    stockholm = Limits(zone="Europe/Stockholm")
    assert longest(a_case(start, end, limits=stockholm)) is None
    violation = longest(a_case(start, end + SECOND, limits=stockholm))
    assert violation
    assert violation.actual == "P14DT1S"


def test_an_extended_booking_is_measured_from_its_start() -> None:
    mine = a_record(day(-10), day(2))
    assert longest(a_case(day(-10), day(4), changing=mine)) is None
    assert longest(a_case(day(-10), day(5), changing=mine))


def test_a_booking_that_gives_back_may_keep_a_length_that_was_allowed_when_booked() -> None:
    mine = a_record(day(-10), day(30))
    assert longest(a_case(day(-10), day(29), changing=mine)) is None
