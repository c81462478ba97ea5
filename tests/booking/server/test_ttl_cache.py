"""Answers that are cached, for threads that ask at once."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from booking.server.ttl_cache import TtlCache
from cluster.fake.clock import FakeClock


class Slow:
    """Answers when it is told to, and counts how often it is asked."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem = problem
        self.called, self.may_answer = threading.Event(), threading.Event()
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        self.called.set()
        assert self.may_answer.wait(60)
        if self.problem:
            raise self.problem
        return "alice"


def test_threads_that_ask_the_same_at_once_ask_once() -> None:
    cache, slow = TtlCache[str, str](FakeClock()), Slow()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get, "token", slow)
        assert slow.called.wait(60)
        second = pool.submit(cache.get, "token", lambda: "asked again")
        assert cache.get("another", lambda: "bob") == "bob"
        slow.may_answer.set()

        assert (first.result(60), second.result(60), slow.calls) == ("alice", "alice", 1)


def test_a_failure_is_reported_and_not_kept() -> None:
    cache, slow = TtlCache[str, str](FakeClock()), Slow(OSError("no answer"))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(cache.get, "token", slow)
        assert slow.called.wait(60)
        slow.may_answer.set()
        with pytest.raises(OSError, match="no answer"):
            first.result(60)

    assert cache.get("token", lambda: "alice") == "alice"
