from datetime import UTC, datetime, timedelta

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.evaluation.start_rules import broken
from booking.server.rules.whole_steps import whole_steps
from tests.fakes.records import a_record, day
from tests.fakes.rule_cases import a_case

HOURS = Limits(granularity=Duration(seconds=3600), shortest=Duration(seconds=3600))
DAYS = Limits(granularity=Duration(days=1), zone="Europe/Stockholm")
MINUTE = timedelta(minutes=1)


def test_the_manual_has_no_steps() -> None:
    assert whole_steps(a_case(day(1), day(2) + MINUTE)) is None


def test_a_booking_that_starts_now_lasts_whole_steps_or_ends_on_one() -> None:
    now = day(0) + 17 * MINUTE
    assert whole_steps(a_case(now, now + timedelta(hours=3), now=now, limits=HOURS)) is None
    assert whole_steps(a_case(now, day(1), now=now, limits=HOURS)) is None, "ends on a step"
    violation = whole_steps(a_case(now, day(1) + MINUTE, now=now, limits=HOURS))
    assert violation
    assert violation.rule == "not-whole-steps"
    assert (violation.limit, violation.actual, violation.earliest_start) == ("PT1H", "PT23H44M", None)


def test_a_day_of_twenty_three_hours_is_a_whole_day() -> None:
    midnight = datetime(2026, 3, 28, 23, tzinfo=UTC)
    assert whole_steps(a_case(midnight, midnight + timedelta(hours=23), limits=DAYS)) is None
    assert whole_steps(a_case(midnight, midnight + timedelta(hours=24), limits=DAYS))


def test_a_change_that_keeps_the_end_is_not_judged_again() -> None:
    odd = a_record(day(1) + MINUTE, day(3) + 2 * MINUTE)
    assert whole_steps(a_case(odd.start + MINUTE, odd.end, changing=odd, limits=HOURS)) is None
    assert whole_steps(a_case(odd.start, odd.end - MINUTE, changing=odd, limits=HOURS)) is None
    assert whole_steps(a_case(odd.start, odd.end + MINUTE, changing=odd, limits=HOURS))


def test_an_end_before_the_start_is_reported_elsewhere() -> None:
    assert whole_steps(a_case(day(1) + MINUTE, day(1), limits=HOURS)) is None


def test_a_start_and_a_length_off_the_steps_are_both_reported() -> None:
    case = a_case(day(1) + MINUTE, day(2) + 3 * MINUTE, limits=HOURS)
    assert [each.rule for each in broken(case)] == ["off-the-grid", "not-whole-steps"]
