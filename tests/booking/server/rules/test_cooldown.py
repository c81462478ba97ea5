from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.records import Record, Violation
from booking.server.rules.cooldown import cooldown
from tests.fakes.objects import A6000
from tests.fakes.records import a_record, day
from tests.fakes.rule_cases import a_case

SECOND = timedelta(seconds=1)


def broken(start: float, *history: Record, late: timedelta = timedelta(0)) -> Violation | None:
    return cooldown(a_case(day(start) + late, day(start + 2), history=history))


def test_the_start_is_fourteen_full_days_after_the_last_end() -> None:
    past = a_record(day(-5), day(-3))
    assert broken(11, past) is None
    violation = broken(11, past, late=-SECOND)
    assert violation
    assert (violation.rule, violation.limit, violation.actual) == ("cooldown", "P14D", "P13DT23H59M59S")
    assert violation.earliest_start == day(11)
    assert "2026-03-13 09:00 UTC" in violation.message


def test_the_latest_end_counts_in_any_order() -> None:
    violation = broken(
        1, a_record(day(-40), day(-38)), a_record(day(-9), day(-3)), a_record(day(-30), day(-28))
    )
    assert violation
    assert violation.earliest_start == day(11)


def test_ends_of_running_and_planned_bookings_count() -> None:
    running, planned = a_record(day(-1), day(3)), a_record(day(2), day(4))
    assert broken(16.9, running)
    assert broken(17, running) is None
    assert broken(17.9, running, planned)
    assert broken(18, running, planned) is None


def test_a_start_before_the_planned_booking_breaks_the_cooldown_too() -> None:
    violation = broken(1, a_record(day(60), day(62)))
    assert violation
    assert violation.actual == "PT0S"


def test_a_released_booking_counts_from_its_real_end() -> None:
    released = a_record(day(-5), day(-4), released=day(-4))
    assert broken(10, released) is None


def test_a_cancelled_booking_leaves_no_trace() -> None:
    assert broken(0, a_record(day(-5), day(-3), cancelled=day(-6))) is None


def test_a_booking_whose_cooldown_an_administrator_waived_does_not_count() -> None:
    assert broken(0, a_record(day(-5), day(-3), waived=True)) is None


def test_without_a_cooldown_no_start_breaks_the_rule() -> None:
    running = a_record(day(-1), day(3))
    assert cooldown(a_case(day(0), history=[running], limits=Limits(cooldown=Duration()))) is None


def test_a_change_that_keeps_the_start_is_not_judged_again() -> None:
    past, mine = a_record(day(-5), day(-3)), a_record(day(1), day(2), id="b-two")
    assert cooldown(a_case(day(1), day(4), history=[past], changing=mine)) is None
    assert cooldown(a_case(day(2), day(4), history=[past], changing=mine))


def test_a_change_may_not_move_the_end_into_the_cooldown_before_the_next_booking() -> None:
    mine, following = a_record(day(1), day(2), id="b-mine"), a_record(day(16), day(17), id="b-next")
    violation = cooldown(a_case(day(1), day(2) + SECOND, history=[following], changing=mine))
    assert violation
    assert (violation.rule, violation.limit, violation.actual) == ("cooldown", "P14D", "P13DT23H59M59S")
    assert violation.earliest_start is None
    assert "b-next starts at 2026-03-18 09:00 UTC" in violation.message
    near = a_record(day(10), day(12), id="b-near")
    nearest = cooldown(a_case(day(1), day(3), history=[following, near], changing=mine))
    assert nearest
    assert "b-near starts at 2026-03-12 09:00 UTC" in nearest.message
    assert cooldown(a_case(day(1), day(20), history=[following], changing=mine)), "nor reach over it"


def test_a_change_that_leaves_the_cooldown_before_the_next_booking_is_accepted() -> None:
    mine, following = a_record(day(1), day(2), id="b-mine"), a_record(day(20), day(21), id="b-next")
    assert cooldown(a_case(day(1), day(6), history=[following], changing=mine)) is None
    assert cooldown(a_case(day(1), day(6) + SECOND, history=[following], changing=mine))
    cancelled = a_record(day(20), day(21), cancelled=day(0))
    assert cooldown(a_case(day(1), day(9), history=[cancelled], changing=mine)) is None
    other = a_record(day(20), day(21), model=A6000)
    by_model = Limits(scope="model")
    assert cooldown(a_case(day(1), day(9), history=[other], changing=mine, limits=by_model)) is None


def test_a_booking_too_close_to_the_next_one_already_may_be_shortened() -> None:
    mine, following = a_record(day(1), day(5), id="b-mine"), a_record(day(6), day(7), id="b-next")
    assert cooldown(a_case(day(1), day(4), history=[following], changing=mine)) is None
    assert cooldown(a_case(day(1), day(5), count=2, history=[following], changing=mine)) is None
    assert cooldown(a_case(day(1), day(5.5), history=[following], changing=mine))


def test_a_booking_of_another_model_does_not_count_where_models_are_counted_separately() -> None:
    other = a_record(day(-5), day(-3), model=A6000)
    assert cooldown(a_case(history=[other], limits=Limits(scope="model"))) is None
    assert cooldown(a_case(history=[other], model=A6000, limits=Limits(scope="model")))


def test_days_are_the_sites_days_when_the_clocks_are_turned_back() -> None:
    # Midnight to midnight in Stockholm: 336 hours and one more.
    end = datetime(2026, 10, 17, 22, tzinfo=UTC)
    violation = cooldown(
        a_case(
            datetime(2026, 10, 31, 22, tzinfo=UTC),
            history=[a_record(day(0), end)],
            limits=Limits(zone="Europe/Stockholm"),
        )
    )
    assert violation
    assert violation.earliest_start == datetime(2026, 10, 31, 23, tzinfo=UTC)


def test_days_are_the_sites_days_when_the_clocks_are_turned_forward() -> None:
    end = datetime(2026, 3, 21, 23, tzinfo=UTC)
    limits = Limits(zone="Europe/Stockholm")
    past = a_record(day(0), end)
    assert cooldown(a_case(datetime(2026, 4, 4, 22, tzinfo=UTC), history=[past], limits=limits)) is None
    assert cooldown(a_case(datetime(2026, 4, 4, 21, 59, tzinfo=UTC), history=[past], limits=limits))


def test_hours_are_elapsed_whatever_the_clocks_do() -> None:
    end = datetime(2026, 10, 17, 22, tzinfo=UTC)
    limits = Limits(zone="Europe/Stockholm", cooldown=Duration(seconds=336 * 3600))
    start = datetime(2026, 10, 31, 22, tzinfo=UTC)
    assert cooldown(a_case(start, history=[a_record(day(0), end)], limits=limits)) is None


@given(st.lists(st.integers(-40, 40), max_size=5), st.integers(0, 80))
def test_the_earliest_start_keeps_the_cooldown_and_one_second_earlier_breaks_it(
    ends: list[int], start: int
) -> None:
    history = [a_record(day(end - 1), day(end)) for end in ends]
    violation = broken(start, *history)
    assert (violation is None) == all(start >= end + 14 for end in ends)
    if violation and violation.earliest_start:
        again = a_case(violation.earliest_start, history=history)
        before = a_case(violation.earliest_start - SECOND, history=history)
        assert cooldown(again) is None
        assert cooldown(before)
