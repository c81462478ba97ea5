"""Whether a loop still goes round."""

import threading

import pytest

from cluster.fake.clock import FakeClock
from deviceplugin.process.loop_watchdog import LONGEST_ROUND, WatchedClock, alive


def test_a_loop_that_is_stuck_in_its_work_is_reported() -> None:
    clock = FakeClock()
    loop, other = WatchedClock("preparation", clock), WatchedClock("publisher", clock)
    check = alive([other, loop])
    assert check() is None
    clock.advance(LONGEST_ROUND - 1)
    assert check() is None
    other.wait(threading.Event(), 0)
    clock.advance(2)
    assert check() == f"The loop 'preparation' has not run for {LONGEST_ROUND:g} s."
    loop.wait(threading.Event(), 0)
    assert check() is None


def test_a_loop_is_stuck_from_the_last_second_of_its_longest_round_on() -> None:
    clock = FakeClock()
    loop = WatchedClock("preparation", clock)
    clock.advance(LONGEST_ROUND - 0.5)
    assert loop.problem is None
    clock.advance(0.5)
    assert loop.problem is not None


def test_the_first_loop_that_is_stuck_is_reported() -> None:
    clock = FakeClock()
    check = alive(iter([WatchedClock("preparation", clock), WatchedClock("publisher", clock)]))
    clock.advance(LONGEST_ROUND)
    assert "'preparation'" in (check() or "")
    assert "'preparation'" in (check() or ""), "at every probe"


def test_a_round_begins_even_where_the_wait_before_it_fails() -> None:
    class Failing(FakeClock):
        def wait(self, event: threading.Event, seconds: float) -> bool:
            del event
            self.advance(seconds)
            raise RuntimeError("interrupted")

    clock = Failing()
    loop = WatchedClock("preparation", clock)
    with pytest.raises(RuntimeError, match="interrupted"):
        loop.wait(threading.Event(), LONGEST_ROUND)
    assert loop.problem is None
    clock.advance(LONGEST_ROUND)
    assert loop.problem is not None


def test_a_waiting_loop_is_not_reported_however_long_it_waits() -> None:
    clock = FakeClock()
    loop = WatchedClock("preparation", clock)
    stop = threading.Event()
    thread = threading.Thread(target=loop.wait, args=(stop, 10 * LONGEST_ROUND))
    thread.start()
    clock.until_waiting()
    clock.advance(5 * LONGEST_ROUND)
    assert loop.problem is None
    stop.set()
    thread.join()


def test_a_watched_clock_shows_the_time_of_its_clock() -> None:
    clock = FakeClock()
    loop = WatchedClock("preparation", clock)
    clock.advance(7)
    assert loop.monotonic() == clock.monotonic() == pytest.approx(7)
    assert loop.now() == clock.now()
