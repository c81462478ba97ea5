"""Whoever waits for a server that does not answer is woken; nobody else is."""

import socket
from collections.abc import Iterator

import pytest

from booking.store.watchdog import Watchdog
from cluster.fake.clock import FakeClock

PATIENCE = 35.0
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Our end, the server's end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_an_answer_that_takes_too_long_is_waited_for_no_more(pair: Pair) -> None:
    ours, theirs = pair
    clock = FakeClock()
    watchdog = Watchdog(PATIENCE, clock)
    with watchdog.watching(ours.fileno):
        clock.advance(PATIENCE - 1)
        watchdog.look()
        ours.sendall(b"still here")
        assert theirs.recv(100) == b"still here"
        clock.advance(1)
        watchdog.look()
        assert ours.recv(1) == b""
    watchdog.close()


def test_who_has_an_answer_is_not_cut(pair: Pair) -> None:
    ours, theirs = pair
    clock = FakeClock()
    watchdog = Watchdog(PATIENCE, clock)
    with watchdog.watching(ours.fileno):
        pass
    clock.advance(10 * PATIENCE)
    watchdog.look()
    ours.sendall(b"still here")
    assert theirs.recv(100) == b"still here"
    watchdog.close()


def test_a_socket_that_is_closed_already_is_no_trouble(pair: Pair) -> None:
    ours, _ = pair
    clock = FakeClock()
    watchdog = Watchdog(PATIENCE, clock)
    number = ours.fileno()
    with watchdog.watching(lambda: number):
        ours.close()
        clock.advance(PATIENCE)
        watchdog.look()
    watchdog.close()
