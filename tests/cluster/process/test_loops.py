"""Loops that fail, and go on."""

import threading
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from cluster.fake.clock import FakeClock, eventually
from cluster.process.loops import IN_A_ROW, PAUSE, WELL_AFTER, Body, Loops


class Played:
    """A loop in its own thread, whose rounds end as the test wants."""

    def __init__(self, make: Callable[[Loops, Callable[[], None]], Body]) -> None:
        self.clock, self.counted = FakeClock(), list[str]()
        self.loops = Loops(self.clock, self.counted.append)
        self.rounds, self.fails = 0, False
        self.stop = threading.Event()
        self._thread = threading.Thread(target=make(self.loops, self._round), args=(self.stop,))
        self._thread.start()

    def _round(self) -> None:
        self.rounds += 1
        if self.fails:
            raise ZeroDivisionError

    def until(self, rounds: int) -> None:
        """Time passes until there have been so many rounds in all."""

        def there() -> bool:
            self.clock.advance(0.5)
            return self.rounds >= rounds

        eventually(there, deadline=60)

    def close(self) -> None:
        self.stop.set()
        self.clock.advance(1)
        self._thread.join(60)
        assert not self._thread.is_alive()


def test_a_round_that_fails_is_logged_and_counted_and_the_next_is_run() -> None:
    played = Played(lambda loops, work: loops.rounds("requeue", 1.0, work))
    try:
        with capture_logs() as lines:
            played.fails = True
            played.until(IN_A_ROW - 1)
            assert played.loops.unready_reason() is None
            played.until(IN_A_ROW)
            eventually(lambda: played.loops.unready_reason() is not None, deadline=60)
        assert str(played.loops.unready_reason()).startswith("The loop 'requeue' has failed ")
        assert played.counted[:IN_A_ROW] == ["requeue"] * IN_A_ROW
        assert {line["event"] for line in lines} == {"a background loop failed and is tried again"}
        played.fails = False
        played.until(played.rounds + 2)
        assert played.loops.unready_reason() is None
    finally:
        played.close()


def test_failures_with_a_success_between_them_are_not_in_a_row() -> None:
    clock = FakeClock(self_advancing=True)
    stop, outcomes = threading.Event(), iter([False, False, True, False, False])
    reasons: list[str | None] = []

    def work() -> None:
        reasons.append(loops.unready_reason())
        try:
            if not next(outcomes):
                raise ZeroDivisionError
        except StopIteration:
            stop.set()

    loops = Loops(clock, lambda _: None)
    loops.rounds("requeue", 1.0, work)(stop)
    assert reasons == [None] * 6


class Ends:
    """A loop of its own, that raises at once, or after a while."""

    def __init__(self, *lasts: float) -> None:
        self.clock = FakeClock(self_advancing=True)
        self.loops = Loops(self.clock, lambda _: None)
        self.stop, self._lasts = threading.Event(), iter(lasts)
        self.reasons: list[str | None] = []

    def run(self, _stop: threading.Event) -> None:
        self.reasons.append(self.loops.unready_reason())
        lasts = next(self._lasts, None)
        if lasts is None:
            return
        self.clock.advance(lasts)
        self.reasons.append(self.loops.unready_reason())
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("lasts", "is_unready"),
    [
        ((0, 0, 0), [False] * 6 + [True]),
        ((0, 0), [False] * 5),
        ((0, 0, 0, WELL_AFTER), [False] * 6 + [True, False, False]),
        ((0, 0, WELL_AFTER, 0), [False] * 9),
    ],
)
def test_a_lasting_loop_that_raises_is_started_again_after_a_pause(
    lasts: tuple[float, ...], is_unready: list[bool]
) -> None:
    ends = Ends(*lasts)
    begun = ends.clock.monotonic()

    ends.loops.lasting("pods", ends.run)(ends.stop)

    assert [found is not None for found in ends.reasons] == is_unready
    assert ends.clock.monotonic() - begun >= sum(lasts) + len(lasts) * PAUSE


def test_a_loop_that_was_stopped_is_not_started_again() -> None:
    ends = Ends(0, 0, 0)
    ends.stop.set()
    ends.loops.lasting("pods", ends.run)(ends.stop)
    assert len(ends.reasons) == 2
