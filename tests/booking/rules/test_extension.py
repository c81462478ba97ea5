from booking.policy.limits import Limits
from booking.rules.extension import extension
from tests.fakes.records import a_record, day
from tests.fakes.rule_cases import a_case

NEVER = Limits(may_extend=False)
RUNNING = a_record(day(-1), day(3), count=2)


def test_a_running_booking_is_extended_unless_the_policy_forbids_it() -> None:
    assert extension(a_case(day(-1), day(4), count=2, changing=RUNNING)) is None
    violation = extension(a_case(day(-1), day(4), count=2, changing=RUNNING, limits=NEVER))
    assert violation
    assert (violation.rule, violation.limit) == ("no-extension", "2026-03-05T09:00:00Z")
    assert violation.actual == "2026-03-06T09:00:00Z"
    assert "2 GPUs" in violation.message


def test_more_gpus_are_an_extension_too() -> None:
    assert extension(a_case(day(-1), day(3), count=3, changing=RUNNING, limits=NEVER))


def test_giving_back_is_not_an_extension() -> None:
    assert extension(a_case(day(-1), day(2), count=1, changing=RUNNING, limits=NEVER)) is None
    assert extension(a_case(day(-1), day(3), count=1, changing=RUNNING, limits=NEVER)) is None, "GPUs alone"
    assert extension(a_case(day(-1), day(2), count=2, changing=RUNNING, limits=NEVER)) is None, "days alone"


def test_changing_a_planned_booking_is_not_an_extension() -> None:
    planned = a_record(day(1), day(3))
    assert extension(a_case(day(1), day(9), changing=planned, limits=NEVER)) is None


def test_a_new_booking_is_not_an_extension() -> None:
    assert extension(a_case(limits=NEVER)) is None
