"""kube-scheduler goes first."""

import threading

from cluster.fake.clock import FakeClock
from extender.verb_priority import LONGEST, VerbPriority


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
