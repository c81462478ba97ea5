from datetime import timedelta

from booking.policy.limits import Limits
from booking.server.records import Record, Violation
from booking.server.rules.no_active_overlap import no_active_overlap
from tests.fakes.objects import A6000
from tests.fakes.records import a_record, day
from tests.fakes.rule_cases import a_case


def broken(*history: Record, limits: Limits | None = None) -> Violation | None:
    return no_active_overlap(a_case(day(90), day(92), history=history, limits=limits or Limits()))


def test_nobody_books_while_their_booking_runs_not_even_for_later() -> None:
    violation = broken(a_record(day(-1), day(3)))
    assert violation
    assert violation.rule == "no-active-overlap"
    assert violation.earliest_start == day(3)
    assert "b-one" in violation.message
    assert "2026-03-05 09:00 UTC" in violation.message


def test_a_booking_runs_from_its_first_instant() -> None:
    assert broken(a_record(day(0), day(3)))


def test_a_booking_that_ends_now_no_longer_runs() -> None:
    assert broken(a_record(day(-3), day(0))) is None


def test_planned_and_cancelled_bookings_do_not_run() -> None:
    planned = a_record(day(0) + timedelta(seconds=1), day(3))
    cancelled = a_record(day(-1), day(3), cancelled=day(-2))
    assert broken(planned, cancelled) is None


def test_a_user_without_bookings_breaks_no_rule() -> None:
    assert broken() is None


def test_a_policy_may_allow_several_at_a_time() -> None:
    two = Limits(max_active=2)
    first, second = a_record(day(-1), day(3)), a_record(day(-1), day(5), id="b-two")
    assert broken(first, limits=two) is None
    violation = broken(first, second, limits=two)
    assert violation
    assert (violation.limit, violation.actual, violation.earliest_start) == (1, 2, day(3))


def test_the_earliest_start_waits_for_bookings_that_begin_in_the_meantime() -> None:
    violation = broken(a_record(day(-1), day(3)), a_record(day(2), day(6), id="b-two"))
    assert violation
    assert violation.earliest_start == day(6)


def test_the_earliest_start_is_never_the_end_of_a_past_booking() -> None:
    violation = broken(a_record(day(-5), day(-3), id="b-past"), a_record(day(-1), day(3)))
    assert violation
    assert violation.earliest_start == day(3)


def test_of_several_running_bookings_the_one_that_ends_last_is_named() -> None:
    violation = broken(a_record(day(-1), day(3)), a_record(day(-2), day(5), id="b-last"))
    assert violation
    assert violation.message == (
        "Your booking b-last runs until 2026-03-07 09:00 UTC: "
        "nobody books while a booking of theirs is running."
    )


def test_where_several_may_run_the_message_says_when_few_enough_do() -> None:
    both = a_record(day(-1), day(3)), a_record(day(-1), day(5), id="b-two")
    violation = broken(*both, limits=Limits(max_active=2))
    assert violation
    assert violation.message == (
        "2 bookings of yours are running, and nobody books while 2 of theirs are: "
        "wait until 2026-03-05 09:00 UTC."
    )


def test_a_change_does_not_count_as_another_booking() -> None:
    running, mine = a_record(day(-1), day(3)), a_record(day(90), day(91), id="b-two")
    assert no_active_overlap(a_case(day(91), day(92), history=[running], changing=mine)) is None


def test_another_model_breaks_no_rule_where_models_are_counted_separately() -> None:
    assert broken(a_record(day(-1), day(3), model=A6000), limits=Limits(scope="model")) is None
