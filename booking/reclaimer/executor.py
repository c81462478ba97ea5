"""Questions to the API server that do not hang on each other are asked at once: one here, the others aside.

What is asked aside only reads, or tries out. Whoever dies in between has written nothing by it: the writes
alone, which stay in their order, are the points from which another process goes on.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

from cluster.kube.errors import ApiError

T = TypeVar("T")

MOST: Final = 5
"""Questions that are on their way at the same time."""


class Executor(Protocol):
    """Has something done while its caller goes on."""

    def __call__(self, work: Callable[[], T], /) -> Callable[[], T]:
        """Begin; whoever calls for the answer waits for it, and hears the ``ApiError`` that came instead."""
        ...


class ThreadExecutor:
    """A few threads that live as long as the process."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(MOST, thread_name_prefix="aside")

    def __call__(self, work: Callable[[], T], /) -> Callable[[], T]:
        """Begin in another thread; when one is free."""
        return self._pool.submit(work).result


def in_turn(work: Callable[[], T], /) -> Callable[[], T]:
    """Do it before the caller goes on: for whoever has one thread alone."""
    done: Future[T] = Future()
    try:
        done.set_result(work())
    except ApiError as error:
        done.set_exception(error)
    return done.result
