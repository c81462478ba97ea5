"""A decision is judged by the states that its maker could see."""

from datetime import datetime, timedelta

from tests.fakes.objects import EPOCH
from tests.laws.state import State
from tests.laws.window import Window


def at(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def a_window(leeway: float) -> tuple[Window, list[State]]:
    """A state every ten seconds, from 0 to 60."""
    window, states = Window(timedelta(seconds=leeway)), [State() for _ in range(7)]
    for n, state in enumerate(states):
        window.put(state, at(10 * n))
    return window, states


def seen(window: Window, states: list[State], now: float) -> set[int]:
    return {next(n for n, s in enumerate(states) if s is state) for state, _ in window.moments(at(now))}


def test_without_leeway_only_the_newest_state_counts() -> None:
    window, states = a_window(0)
    assert seen(window, states, 61) == {6}


def test_every_state_within_the_leeway_counts() -> None:
    window, states = a_window(15)
    assert seen(window, states, 61) == {6, 5, 4}


def test_no_instant_lies_before_the_leeway_or_after_now() -> None:
    window, _ = a_window(15)
    instants = [instant for _, instant in window.moments(at(61))]
    assert min(instants) == at(46)
    assert max(instants) == at(61)


def test_after_an_outage_the_leeway_reaches_back_to_before_it() -> None:
    window, states = a_window(5)
    window.fault(at(32))
    window.fault(at(58))
    assert seen(window, states, 61) == {6, 5, 4, 3, 2}
    assert seen(window, states, 70) == {6}


def test_the_leeway_reaches_back_to_a_single_fault() -> None:
    window, states = a_window(5)
    window.fault(at(58))
    assert seen(window, states, 61) == {6, 5}


def test_a_fault_after_the_write_does_not_count_for_it() -> None:
    window, states = a_window(15)
    window.fault(at(70))
    window.fault(at(75))
    assert seen(window, states, 61) == {6, 5, 4}


def test_many_later_faults_do_not_hide_the_one_before_the_write() -> None:
    window, states = a_window(5)
    window.fault(at(32))
    window.fault(at(58))
    for n in range(20):
        window.fault(at(70 + n))
    assert seen(window, states, 61) == {6, 5, 4, 3, 2}


def test_the_state_that_a_writer_says_it_has_read_is_judged_early_and_all_others_as_well() -> None:
    window, _ = a_window(45)
    as_usual, found = [*window.moments(at(61))], [*window.moments(at(61), at(30))]
    assert found[0] == as_usual[0]
    assert found[1][1] == at(30)
    assert sorted(instant for _, instant in found) == sorted(instant for _, instant in as_usual)
