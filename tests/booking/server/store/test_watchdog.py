"""Only a call that waits for an unresponsive server is interrupted."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from booking.server.store.watchdog import Watchdog
from cluster.fake.clock import FakeClock

PATIENCE = 35.0


@dataclass(frozen=True)
class Line:
    """A connection and its watchdog."""

    ours: socket.socket
    theirs: socket.socket
    clock: FakeClock
    watchdog: Watchdog

    def look_after(self, seconds: float) -> None:
        """Let the watchdog check so many seconds later."""
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


def test_a_call_whose_answer_takes_too_long_is_interrupted(line: Line) -> None:
    with line.watchdog.watching(line.ours.fileno):
        line.look_after(PATIENCE - 1)
        assert line.is_open()
        line.look_after(1)
        assert line.ours.recv(1) == b""
    assert not line.is_open()


def test_an_answered_call_is_not_interrupted(line: Line) -> None:
    with line.watchdog.watching(line.ours.fileno):
        pass
    line.look_after(10 * PATIENCE)
    assert line.is_open()


class NoConnectionError(Exception):
    """An error of a driver's own kind."""


def test_a_lost_connection_does_not_prevent_the_watch_over_others(line: Line) -> None:
    def gone() -> int:
        raise NoConnectionError

    with line.watchdog.watching(gone), line.watchdog.watching(line.ours.fileno):
        line.look_after(PATIENCE)
    assert not line.is_open()
