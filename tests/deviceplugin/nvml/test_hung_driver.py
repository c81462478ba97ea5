"""The end of the agent while the driver hangs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cluster.fake.clock import FakeClock
from deviceplugin.nvml.hung_driver import (
    CHECK_EVERY,
    PATIENCE,
    HangingDriverError,
    Target,
    abandoning_a_hung_driver,
)


def never() -> bool:
    """No call is overdue."""
    return False


@contextmanager
def hanging() -> Iterator[Target]:
    """A target that hangs until the end of the test."""
    free = threading.Event()

    def hang(_: threading.Event) -> None:
        free.wait()

    try:
        yield hang
    finally:
        free.set()


def test_a_thread_that_ends_when_stopped_is_waited_for() -> None:
    stop = threading.Event()
    stop.set()
    ended: list[bool] = []
    abandoning_a_hung_driver(lambda stopping: ended.append(stopping.is_set()), FakeClock(), never)(stop)
    assert ended == [True]


def test_a_thread_that_hangs_is_abandoned() -> None:
    clock, stop = FakeClock(self_advancing=True), threading.Event()
    stop.set()
    with hanging() as hang, pytest.raises(HangingDriverError, match="left behind"):
        abandoning_a_hung_driver(hang, clock, never)(stop)
    assert clock.waits == [PATIENCE]


def test_a_hanging_thread_is_not_abandoned_before_the_end_is_requested() -> None:
    clock, stop = FakeClock(), threading.Event()
    left: list[HangingDriverError] = []

    with hanging() as hang:

        def run() -> None:
            try:
                abandoning_a_hung_driver(hang, clock, never)(stop)
            except HangingDriverError as error:
                left.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        for _ in range(20):
            clock.until_waiting()
            clock.advance(CHECK_EVERY)
        clock.until_waiting()
        assert thread.is_alive()
        stop.set()
        while thread.is_alive():
            clock.advance(PATIENCE)
            thread.join(0.01)
    assert len(left) == 1


def test_an_error_of_the_thread_is_raised() -> None:
    def crash(_: threading.Event) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        abandoning_a_hung_driver(crash, FakeClock(), never)(threading.Event())


def test_another_thread_starts_where_a_call_is_overdue_and_its_end_counts() -> None:
    clock, stop, free = FakeClock(self_advancing=True), threading.Event(), threading.Event()
    attempts: list[int] = []
    overdue = [True, False]

    def hang_once(_: threading.Event) -> None:
        attempts.append(len(attempts))
        if len(attempts) == 1:
            free.wait()
        stop.set()

    try:
        abandoning_a_hung_driver(hang_once, clock, lambda: bool(overdue) and overdue.pop(0))(stop)
    finally:
        free.set()
    assert attempts == [0, 1]
