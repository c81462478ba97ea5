from datetime import timedelta

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.rules.horizon import horizon
from tests.fakes.records import a_record, day
from tests.fakes.rule_cases import a_case

MONTH = Limits(horizon=Duration(days=30))
SECOND = timedelta(seconds=1)


def test_a_booking_starts_within_the_horizon() -> None:
    assert horizon(a_case(day(30), limits=MONTH)) is None
    violation = horizon(a_case(day(30) + SECOND, limits=MONTH))
    assert violation
    assert (violation.rule, violation.earliest_start) == ("beyond-the-horizon", None)
    assert (violation.limit, violation.actual) == ("2026-04-01T09:00:00Z", "2026-04-01T09:00:01Z")
    assert violation.message == (
        "A booking starts at most 30 days ahead, by 2026-04-01 09:00 UTC; "
        "this one starts at 2026-04-01 09:00:01 UTC."
    )


def test_the_manual_has_no_horizon() -> None:
    assert horizon(a_case(day(900))) is None


def test_moving_a_booking_nearer_does_not_break_the_horizon_but_moving_it_away_does() -> None:
    mine = a_record(day(50), day(52))
    assert horizon(a_case(day(49), changing=mine, limits=MONTH)) is None
    assert horizon(a_case(day(50), day(53), changing=mine, limits=MONTH)) is None
    assert horizon(a_case(day(51), changing=mine, limits=MONTH))


def test_the_message_says_by_when_a_booking_may_start() -> None:
    violation = horizon(a_case(day(31), limits=MONTH))
    assert violation
    assert violation.message == (
        "A booking starts at most 30 days ahead, by 2026-04-01 09:00 UTC; this one starts at 2026-04-02 09:00"
        " UTC."
    )


def test_the_days_of_a_horizon_are_those_of_the_site_even_where_its_clocks_change() -> None:
    """Summer time begins on 29 March: the thirtieth day at ten in the morning is an hour nearer."""
    stockholm = Limits(horizon=Duration(days=30), zone="Europe/Stockholm")
    last = day(30) - timedelta(hours=1)
    assert horizon(a_case(last, limits=stockholm)) is None
    assert horizon(a_case(last + SECOND, limits=stockholm))


def test_a_horizon_of_zero_leaves_only_bookings_that_start_now() -> None:
    now_only = Limits(horizon=Duration())
    assert horizon(a_case(day(0), limits=now_only)) is None
    assert horizon(a_case(day(0) + SECOND, limits=now_only))


def test_giving_back_the_first_days_of_a_booking_beyond_the_horizon_does_not_break_it() -> None:
    mine = a_record(day(50), day(55), count=2)
    assert horizon(a_case(day(51), day(55), count=2, changing=mine, limits=MONTH)) is None
    assert horizon(a_case(day(51), day(55), count=1, changing=mine, limits=MONTH)) is None
    assert horizon(a_case(day(51), day(56), count=2, changing=mine, limits=MONTH))
    assert horizon(a_case(day(51), day(55), count=3, changing=mine, limits=MONTH))
