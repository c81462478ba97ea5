from datetime import UTC, datetime, timedelta

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.rules.granularity import granularity
from tests.fakes.records import a_record, day
from tests.fakes.rule_cases import a_case

HOURS = Limits(granularity=Duration(seconds=3600), shortest=Duration(seconds=3600))
DAYS = Limits(granularity=Duration(days=1), zone="Europe/Stockholm")
MINUTE = timedelta(minutes=1)


def test_the_manual_has_no_steps() -> None:
    assert granularity(a_case(day(1) + MINUTE, day(2) + 2 * MINUTE)) is None


def test_starts_are_on_whole_steps() -> None:
    assert granularity(a_case(day(1), limits=HOURS)) is None
    violation = granularity(a_case(day(1) + MINUTE, day(2), limits=HOURS))
    assert violation
    assert (violation.rule, violation.limit) == ("off-the-grid", "PT1H")
    assert violation.earliest_start == day(1) + timedelta(hours=1)


def test_a_booking_that_starts_now_need_not_wait_for_the_next_step() -> None:
    now = day(0) + 17 * MINUTE
    assert granularity(a_case(now, now + timedelta(hours=3), now=now, limits=HOURS)) is None


def test_days_begin_at_the_sites_midnight() -> None:
    midnight = datetime(2026, 3, 9, 23, tzinfo=UTC)
    assert granularity(a_case(midnight, limits=DAYS)) is None
    violation = granularity(a_case(midnight + timedelta(hours=1), limits=DAYS))
    assert violation
    assert violation.earliest_start == datetime(2026, 3, 10, 23, tzinfo=UTC)


def test_a_change_that_keeps_the_start_is_not_judged_again() -> None:
    odd = a_record(day(1) + MINUTE, day(3) + 2 * MINUTE)
    assert granularity(a_case(odd.start, odd.end + MINUTE, changing=odd, limits=HOURS)) is None
    assert granularity(a_case(odd.start + MINUTE, odd.end, changing=odd, limits=HOURS))


def test_an_end_before_the_start_is_reported_elsewhere() -> None:
    assert granularity(a_case(day(1) + MINUTE, day(1), limits=HOURS)) is None
