"""A call that waits for a server that does not answer is woken; no other is."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from booking.store.watchdog import Watchdog
from cluster.fake.clock import FakeClock

PATIENCE = 35.0


@dataclass(frozen=True)
class Line:
    """A connection, and who watches it."""

    ours: socket.socket
    theirs: socket.socket
    clock: FakeClock
    watchdog: Watchdog

    def look_after(self, seconds: float) -> None:
        """So much later."""
        self.clock.advance(seconds)
        self.watchdog.reconcile()

    def is_open(self) -> bool:
        """Whether what we send arrives."""
        try:
            self.ours.sendall(b"still here")
        except BrokenPipeError:
            return False
        return self.theirs.recv(100) == b"still here"


@pytest.fixture
def line() -> Iterator[Line]:
    clock = FakeClock()
    watchdog = Watchdog(PATIENCE, clock)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Line(ours, theirs, clock, watchdog)
    watchdog.close()


def test_an_answer_that_takes_too_long_is_waited_for_no_more(line: Line) -> None:
    with line.watchdog.watching(line.ours.fileno):
        line.look_after(PATIENCE - 1)
        assert line.is_open()
        line.look_after(1)
        assert line.ours.recv(1) == b""
    assert not line.is_open()


def test_a_call_that_has_an_answer_is_not_cut(line: Line) -> None:
    with line.watchdog.watching(line.ours.fileno):
        pass
    line.look_after(10 * PATIENCE)
    assert line.is_open()


class NoConnectionError(Exception):
    """As drivers have errors of their own."""


def test_a_connection_that_is_gone_already_keeps_nobody_from_watching_the_others(line: Line) -> None:
    def gone() -> int:
        raise NoConnectionError

    with line.watchdog.watching(gone), line.watchdog.watching(line.ours.fileno):
        line.look_after(PATIENCE)
    assert not line.is_open()
