"""Polling with a deadline, in virtual time."""

from cluster.fake.clock import FakeClock
from devcluster.wait import Stopwatch, poll


def test_the_conditions_result_is_returned_as_soon_as_it_is_true() -> None:
    clock = FakeClock(self_advancing=True)
    answers = iter([None, 0, "", "here", "too late"])

    assert poll(lambda: next(answers), seconds=10, every=1, clock=clock) == "here"
    assert clock.waits == [1, 1, 1]


def test_a_condition_that_never_holds_ends_with_the_deadline() -> None:
    clock = FakeClock(self_advancing=True)

    assert poll(lambda: None, seconds=3, every=1, clock=clock) is None
    assert clock.monotonic() == 3


def test_the_condition_is_checked_once_more_after_a_deadline_that_passed_while_nothing_ran() -> None:
    clock = FakeClock(self_advancing=True)

    assert poll(lambda: clock.monotonic() > 5, seconds=5, every=50, clock=clock)


def test_a_condition_is_checked_even_without_any_time() -> None:
    assert poll(lambda: True, seconds=0, clock=FakeClock())


def test_a_stopwatch_counts_from_its_creation() -> None:
    clock = FakeClock()
    watch = Stopwatch(clock)
    clock.advance(2.5)

    assert watch.seconds == 2.5
