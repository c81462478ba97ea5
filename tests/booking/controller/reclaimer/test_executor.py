"""Independent calls are made at once, in threads or in turn: their caller gets the same answers."""

import threading
from collections.abc import Callable

import pytest

from booking.controller.reclaimer.executor import MOST, Executor, ThreadExecutor, in_turn
from cluster.kube.errors import ApiError, Request, Unreachable
from tests.fakes.aside import afterwards

WITHIN = 60.0
"""Seconds after which a thread is given up."""


@pytest.fixture(
    params=[ThreadExecutor, lambda: in_turn, lambda: afterwards], ids=["threads", "first", "last"]
)
def executor(request: pytest.FixtureRequest) -> Executor:
    make: Callable[[], Executor] = request.param
    return make()


def test_a_caller_that_waits_gets_the_answer(executor: Executor) -> None:
    assert executor(lambda: 4711)() == 4711


def test_a_caller_that_waits_gets_the_error(executor: Executor) -> None:
    def fail() -> None:
        raise Unreachable(Request("GET", "pods"), "connection refused")

    answer = executor(fail)
    with pytest.raises(ApiError, match="connection refused"):
        answer()


def test_an_error_that_no_caller_waits_for_is_ignored(executor: Executor) -> None:
    def fail() -> None:
        raise Unreachable(Request("GET", "pods"), "connection refused")

    executor(fail)
    assert executor(lambda: 1)() == 1


def test_threads_work_in_parallel_while_their_caller_goes_on() -> None:
    threads, meet = ThreadExecutor(), threading.Barrier(MOST + 1)
    answers = [threads(lambda: meet.wait(WITHIN)) for _ in range(MOST)]
    meet.wait(WITHIN)
    assert {answer() for answer in answers} <= set(range(MOST + 1))
    assert not meet.broken
