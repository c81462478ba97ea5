"""Independent requests to the API server run concurrently: one in the caller's thread, the others in a pool.

The pool only reads, or makes dry runs, so a process that dies meanwhile has written nothing by it. Writes
stay in their order; they are the points from which another process continues.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

from cluster.kube.errors import ApiError

T = TypeVar("T")

MOST: Final = 5
"""Requests in flight at the same time."""


class Executor(Protocol):
    """Runs work in the background."""

    def __call__(self, work: Callable[[], T], /) -> Callable[[], T]:
        """Start the work; calling the result waits for it, and raises the work's ``ApiError``."""
        ...


class ThreadExecutor:
    """A few threads that live as long as the process."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(MOST, thread_name_prefix="aside")

    def __call__(self, work: Callable[[], T], /) -> Callable[[], T]:
        """Start the work in another thread, when one is free."""
        return self._pool.submit(work).result


def in_turn(work: Callable[[], T], /) -> Callable[[], T]:
    """Do the work at once, in the caller's thread."""
    done: Future[T] = Future()
    try:
        done.set_result(work())
    except ApiError as error:
        done.set_exception(error)
    return done.result
