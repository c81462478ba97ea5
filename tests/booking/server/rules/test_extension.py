from datetime import datetime, timedelta

import pytest

from booking.policy.limits import Limits
from booking.server.records import Record
from booking.server.rules.extension import extension
from tests.fakes.records import a_record, day
from tests.fakes.rule_cases import a_case

NEVER = Limits(may_extend=False)
RUNNING = a_record(day(-1), day(3), count=2)
SECOND = timedelta(seconds=1)


def test_a_running_booking_is_extended_unless_the_policy_forbids_it() -> None:
    assert extension(a_case(day(-1), day(4), count=2, changing=RUNNING)) is None
    violation = extension(a_case(day(-1), day(4), count=2, changing=RUNNING, limits=NEVER))
    assert violation
    assert (violation.rule, violation.earliest_start) == ("no-extension", None)
    assert (violation.limit, violation.actual) == ("2026-03-05T09:00:00Z", "2026-03-06T09:00:00Z")
    assert violation.message == (
        "A booking that is running is not extended here: it stays at 2 GPUs until 2026-03-05 09:00 UTC."
    )


@pytest.mark.parametrize(
    ("end", "count", "is_extended"),
    [
        (day(3), 2, False),
        (day(3), 1, False),
        (day(3) - SECOND, 2, False),
        (day(2), 1, False),
        (day(3) + SECOND, 2, True),
        (day(3) + SECOND, 1, True),
        (day(3), 3, True),
        (day(2), 3, True),
    ],
)
def test_a_later_end_or_more_gpus_are_an_extension_and_giving_back_is_none(
    end: datetime, count: int, *, is_extended: bool
) -> None:
    found = extension(a_case(day(-1), end, count=count, changing=RUNNING, limits=NEVER))
    assert (found is not None) is is_extended


def test_an_earlier_start_of_a_running_booking_is_refused_for_its_start_and_not_as_an_extension() -> None:
    assert extension(a_case(day(-2), day(3), count=2, changing=RUNNING, limits=NEVER)) is None


@pytest.mark.parametrize(
    "over",
    [
        a_record(day(-3), day(0)),
        a_record(day(-1), day(3), cancelled=day(-2)),
        a_record(day(-1), day(3), released=day(0)),
    ],
    ids=["ended", "cancelled", "released"],
)
def test_a_booking_that_is_over_is_not_extended(over: Record) -> None:
    assert extension(a_case(over.start, day(9), changing=over, limits=NEVER)) is None


def test_changing_a_planned_booking_is_not_an_extension() -> None:
    planned = a_record(day(1), day(3))
    assert extension(a_case(day(1), day(9), changing=planned, limits=NEVER)) is None


def test_a_new_booking_is_not_an_extension() -> None:
    assert extension(a_case(limits=NEVER)) is None
