from booking.policy.limits import Limits
from booking.server.records import Record, Violation
from booking.server.rules.one_planned import one_planned
from tests.fakes.objects import A6000
from tests.fakes.records import a_record, day
from tests.fakes.rule_cases import a_case


def broken(*history: Record, limits: Limits | None = None) -> Violation | None:
    return one_planned(a_case(day(90), day(92), history=history, limits=limits or Limits()))


def test_a_user_has_one_planned_booking_at_a_time() -> None:
    violation = broken(a_record(day(5), day(8)))
    assert violation
    assert (violation.rule, violation.limit, violation.actual) == ("one-planned", 1, 2)
    assert violation.earliest_start == day(8)
    assert "2026-03-07 09:00 UTC" in violation.message


def test_a_booking_that_starts_now_is_no_longer_planned() -> None:
    assert broken(a_record(day(0), day(3))) is None


def test_a_cancelled_booking_makes_room_for_another() -> None:
    assert broken(a_record(day(5), day(8), cancelled=day(-1))) is None


def test_past_bookings_do_not_count() -> None:
    assert broken(a_record(day(-5), day(-3))) is None


def test_a_policy_may_allow_several_planned_bookings() -> None:
    both = a_record(day(5), day(8)), a_record(day(15), day(18), id="b-two")
    assert broken(both[0], limits=Limits(max_planned=2)) is None
    violation = broken(*both, limits=Limits(max_planned=2))
    assert violation
    assert violation.message.endswith("at most 2 planned bookings at a time.")
    assert violation.earliest_start == day(8), "from day 5 on the first one runs, and no other may overlap it"


def test_of_several_planned_bookings_the_one_that_ends_last_is_named() -> None:
    violation = broken(a_record(day(5), day(8)), a_record(day(15), day(18), id="b-last"))
    assert violation
    assert violation.message == (
        "Your booking b-last is planned from 2026-03-17 09:00 UTC: one planned booking at a time."
    )


def test_a_planned_booking_of_another_model_does_not_count_where_models_are_counted_separately() -> None:
    planned = a_record(day(5), day(8), model=A6000)
    assert broken(planned, limits=Limits(scope="model")) is None
    assert broken(planned)


def test_the_earliest_start_waits_for_running_bookings_too() -> None:
    running = a_record(day(-1), day(10))
    violation = broken(running, a_record(day(5), day(8), id="b-two"))
    assert violation
    assert violation.earliest_start == day(10)


def test_where_several_may_run_the_earliest_start_is_that_of_the_planned_booking() -> None:
    violation = broken(a_record(day(5), day(8)), limits=Limits(max_active=2))
    assert violation
    assert violation.earliest_start == day(5)


def test_a_change_does_not_count_as_another_booking() -> None:
    planned, mine = a_record(day(5), day(8)), a_record(day(20), day(21), id="b-two")
    assert one_planned(a_case(day(21), day(22), history=[planned], changing=mine)) is None
