from datetime import UTC, datetime, timedelta

import pytest

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.records import Violation
from booking.server.rules.shortest import shortest
from tests.fakes.records import a_record, day
from tests.fakes.rule_cases import a_case


def broken(length: timedelta) -> Violation | None:
    return shortest(a_case(day(1), day(1) + length))


def test_a_day_is_long_enough_and_a_second_less_is_not() -> None:
    assert broken(timedelta(days=1)) is None
    violation = broken(timedelta(hours=23, minutes=59, seconds=59))
    assert violation
    assert (violation.rule, violation.limit, violation.actual) == ("shortest", "P1D", "PT23H59M59S")
    assert violation.message == "A booking lasts at least 1 day, this one 23 hours 59 minutes 59 seconds."


def test_a_booking_that_is_too_short_has_no_earliest_start() -> None:
    assert (broken(timedelta(hours=1)) or pytest.fail("not broken")).earliest_start is None


def test_an_end_before_the_start_is_reported_elsewhere() -> None:
    assert broken(-timedelta(days=3)) is None
    assert broken(timedelta(0)) is None


def test_the_day_on_which_the_clocks_are_turned_forward_counts_as_a_day() -> None:
    midnight = datetime(2026, 3, 28, 23, tzinfo=UTC)
    case = a_case(midnight, midnight + timedelta(hours=23), limits=Limits(zone="Europe/Stockholm"))
    assert shortest(case) is None


def test_the_day_on_which_the_clocks_are_turned_back_has_twenty_five_hours() -> None:
    midnight = datetime(2026, 10, 24, 22, tzinfo=UTC)
    stockholm = Limits(zone="Europe/Stockholm")
    assert shortest(a_case(midnight, midnight + timedelta(hours=24), limits=stockholm))
    assert shortest(a_case(midnight, midnight + timedelta(hours=25), limits=stockholm)) is None


def test_a_booking_is_not_shortened_below_the_limit_but_a_short_one_may_grow() -> None:
    two_days = a_record(day(1), day(3))
    assert shortest(a_case(day(1), day(1.5), changing=two_days))
    hours = a_record(day(1), day(1.25))
    assert shortest(a_case(day(1), day(1.5), changing=hours)) is None


def test_a_move_of_as_many_days_is_no_shortening_where_the_clocks_are_turned_forward() -> None:
    stockholm = Limits(zone="Europe/Stockholm", shortest=Duration(days=2))
    mine = a_record(datetime(2026, 3, 10, 8, tzinfo=UTC), datetime(2026, 3, 11, 8, tzinfo=UTC))
    moved, end = datetime(2026, 3, 28, 8, tzinfo=UTC), datetime(2026, 3, 29, 7, tzinfo=UTC)
    assert shortest(a_case(moved, end, changing=mine, limits=stockholm)) is None
    assert shortest(a_case(moved, end - timedelta(seconds=1), changing=mine, limits=stockholm))


def test_the_limit_may_be_given_in_hours() -> None:
    limits = Limits(shortest=Duration(seconds=7200))
    assert shortest(a_case(day(1), day(1) + timedelta(hours=2), limits=limits)) is None
    assert shortest(a_case(day(1), day(1) + timedelta(hours=1), limits=limits))
