from datetime import timedelta

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.rules.most_gpus import most_gpus
from tests.fakes.objects import A100
from tests.fakes.records import a_record, day
from tests.fakes.rule_cases import a_case

TWO = Limits(max_gpus_per_booking=2)


def test_a_booking_has_at_most_the_limit() -> None:
    assert most_gpus(a_case(count=2, limits=TWO)) is None
    violation = most_gpus(a_case(count=3, limits=TWO))
    assert violation
    assert (violation.rule, violation.limit, violation.actual) == ("too-many-gpus", 2, 3)
    assert violation.message == f"You may book at most 2 GPUs of model {A100} at once, not 3."


def test_without_a_limit_any_number_is_allowed() -> None:
    assert most_gpus(a_case(count=10**6)) is None


def test_with_a_limit_of_zero_the_model_cannot_be_booked() -> None:
    violation = most_gpus(a_case(limits=Limits(max_gpus_per_booking=0)))
    assert violation
    assert violation.message.startswith("You may book no GPU of model")


def test_a_booking_that_starts_soon_enough_may_exceed_the_limit() -> None:
    limits = Limits(max_gpus_per_booking=2, spontaneous=Duration(days=1))
    assert most_gpus(a_case(day(1), count=3, limits=limits)) is None
    assert most_gpus(a_case(day(1) + timedelta(seconds=1), count=3, limits=limits))


def test_a_change_may_keep_a_number_over_the_limit_but_not_increase_it() -> None:
    mine = a_record(day(1), day(3), count=4)
    assert most_gpus(a_case(day(1), day(4), count=4, changing=mine, limits=TWO)) is None
    assert most_gpus(a_case(day(1), day(3), count=5, changing=mine, limits=TWO))


def test_a_booking_made_at_short_notice_is_not_moved_out_of_it() -> None:
    limits = Limits(max_gpus_per_booking=2, spontaneous=Duration(days=1))
    mine = a_record(day(0.5), day(3), count=4)
    assert most_gpus(a_case(day(20), day(22), count=4, changing=mine, limits=limits))
    assert most_gpus(a_case(day(0.7), day(4), count=4, changing=mine, limits=limits)) is None
    assert most_gpus(a_case(day(2), day(3), count=4, changing=mine, limits=limits)) is None, "given back"
    assert most_gpus(a_case(day(20), day(22), count=2, changing=mine, limits=limits)) is None
