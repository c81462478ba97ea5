"""kube-scheduler goes first."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cluster.fake.clock import FakeClock
from extender.state.verb_priority import LONGEST, VerbPriority


class Waits(FakeClock):
    """A clock that records how long somebody has waited."""

    def __init__(self, *, ends: bool) -> None:
        super().__init__()
        self.waited: list[float] = []
        self._ends = ends

    def wait(self, _event: threading.Event, seconds: float) -> bool:
        """For all of it, or until the question is answered after a thousandth of a second."""
        took = 0.001 if self._ends else seconds
        self.waited.append(took)
        self.advance(took)
        return self._ends


def test_while_nobody_asks_nobody_waits() -> None:
    clock = Waits(ends=False)
    priority = VerbPriority(clock)
    priority.give()
    with priority.taken():
        pass
    priority.give()
    assert clock.waited == []


def test_events_wait_while_questions_are_answered() -> None:
    clock = Waits(ends=True)
    priority = VerbPriority(clock)
    with priority.taken():
        with priority.taken():
            pass
        priority.give()
    assert clock.waited == [0.001]


def test_without_a_break_events_get_half_of_the_time() -> None:
    clock = Waits(ends=False)
    priority = VerbPriority(clock)
    with priority.taken():
        for _ in range(1000):
            priority.give()
            clock.advance(0.001)
    assert max(clock.waited) == LONGEST
    assert 0.4 < sum(clock.waited) / (sum(clock.waited) + 1.0) < 0.6


def test_an_answer_that_fails_makes_nobody_wait_afterwards() -> None:
    clock = Waits(ends=False)
    priority = VerbPriority(clock)
    with pytest.raises(ZeroDivisionError), priority.taken():
        raise ZeroDivisionError
    priority.give()
    assert clock.waited == []


def test_events_wait_until_the_last_of_several_answers() -> None:
    clock = Waits(ends=False)
    priority = VerbPriority(clock)
    first, second = priority.taken(), priority.taken()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    priority.give()
    assert clock.waited == [LONGEST]
    second.__exit__(None, None, None)
    clock.advance(1)
    priority.give()
    assert clock.waited == [LONGEST]


def test_who_has_waited_reads_for_as_long_before_it_waits_again() -> None:
    clock = Waits(ends=False)
    priority = VerbPriority(clock)
    with priority.taken():
        priority.give()
        clock.advance(LONGEST - 0.001)
        priority.give()
        assert clock.waited == [LONGEST]
        clock.advance(0.002)
        priority.give()
    assert clock.waited == [LONGEST, LONGEST]


def test_who_waits_goes_on_as_soon_as_the_answer_is_given() -> None:
    clock = FakeClock()
    priority = VerbPriority(clock)
    with ThreadPoolExecutor(1) as pool:
        with priority.taken():
            waits = pool.submit(priority.give)
            clock.until_waiting()
        waits.result(60)
    assert clock.monotonic() == 0, "before its time was over"
