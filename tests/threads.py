"""Several things at once in a test: until they are stopped, or each at its moment."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

from cluster.process.clock import SystemClock


class Timed(Protocol):
    """What happens at a moment."""

    @property
    def at(self) -> float:
        """Seconds after the beginning."""
        ...


T = TypeVar("T", bound=Timed)


@contextmanager
def running(bodies: Sequence[Callable[[], None]], stop: threading.Event) -> Iterator[None]:
    """Threads that end when they are stopped; what one of them raises is raised here in the end."""
    with ThreadPoolExecutor(len(bodies)) as pool:
        futures: list[Future[None]] = [pool.submit(body) for body in bodies]
        try:
            yield
        finally:
            stop.set()
        for one in futures:
            one.result()


class Timetable:
    """Things that happen at their moments, those of one group one after the other.

    Where the target has not recovered from something else yet, it happens after that.
    """

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._lock: Final = threading.Lock()
        self._groups: dict[str, threading.Lock] = {}

    def run(self, things: Sequence[T], deed: Callable[[T], None], group: Callable[[T], str]) -> None:
        """Do all of them; returns when everything is over, and raises what went wrong in any."""

        def at_its_moment(thing: T) -> None:
            self._clock.wait(threading.Event(), thing.at)
            with self._lock:
                alone = self._groups.setdefault(group(thing), threading.Lock())
            with alone:
                deed(thing)

        with ThreadPoolExecutor(len(things)) as pool:
            futures: list[Future[None]] = [pool.submit(at_its_moment, thing) for thing in things]
            for one in futures:
                one.result()
