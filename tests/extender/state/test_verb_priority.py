"""kube-scheduler goes first."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cluster.fake.clock import FakeClock
from extender.state.verb_priority import LONGEST, VerbPriority


class Waits(FakeClock):
    """A clock that records its waits."""

    def __init__(self, *, ends: bool) -> None:
        super().__init__()
        self.waited: list[float] = []
        self._ends = ends

    def wait(self, _event: threading.Event, seconds: float) -> bool:
        """Wait the whole time, or until the request is answered after a thousandth of a second."""
        took = 0.001 if self._ends else seconds
        self.waited.append(took)
        self.advance(took)
        return self._ends


def test_events_do_not_wait_while_no_verb_is_answered() -> None:
    clock = Waits(ends=False)
    priority = VerbPriority(clock)
    priority.give()
    with priority.taken():
        pass
    priority.give()
    assert clock.waited == []


def test_events_wait_while_verbs_are_answered() -> None:
    clock = Waits(ends=True)
    priority = VerbPriority(clock)
    with priority.taken():
        with priority.taken():
            pass
        priority.give()
    assert clock.waited == [0.001]


def test_events_get_half_of_the_time_under_constant_load() -> None:
    clock = Waits(ends=False)
    priority = VerbPriority(clock)
    with priority.taken():
        for _ in range(1000):
            priority.give()
            clock.advance(0.001)
    assert max(clock.waited) == LONGEST
    assert 0.4 < sum(clock.waited) / (sum(clock.waited) + 1.0) < 0.6


def test_events_do_not_wait_after_an_answer_that_failed() -> None:
    clock = Waits(ends=False)
    priority = VerbPriority(clock)
    with pytest.raises(ZeroDivisionError), priority.taken():
        raise ZeroDivisionError
    priority.give()
    assert clock.waited == []


def test_events_wait_for_the_last_of_several_answers() -> None:
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


def test_an_event_handler_that_has_waited_works_as_long_before_it_waits_again() -> None:
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


def test_a_waiting_event_handler_continues_as_soon_as_the_answer_is_given() -> None:
    clock = FakeClock()
    priority = VerbPriority(clock)
    with ThreadPoolExecutor(1) as pool:
        with priority.taken():
            waits = pool.submit(priority.give)
            clock.until_waiting()
        waits.result(60)
    assert clock.monotonic() == 0, "before its time was over"
