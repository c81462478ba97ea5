"""Answers of the API server, cached for ten seconds; and clients that have been accepted before."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Final, Generic, TypeVar

from cluster.process.clock import Clock

REMEMBERED_SECONDS: Final = 10.0
REMEMBERED: Final = 1024
"""Maximum number of cached answers."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Question -> answer. Failures are not cached. Thread-safe.

    Threads that ask the same at once ask together: one does, and the others get its answer, or its failure.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[K, tuple[V, float]] = OrderedDict()
        self._queries: dict[K, Future[V]] = {}

    def get(self, question: K, ask: Callable[[], V]) -> V:
        """The cached answer, or a new one."""
        now = self._clock.monotonic()
        with self._lock:
            known = self._known.get(question)
            if known and now < known[1]:
                return known[0]
            query = self._queries.get(question)
            if query is None:
                mine = self._queries[question] = Future[V]()
        if query is not None:
            return query.result()
        return self._answered(question, ask, mine, until=now + REMEMBERED_SECONDS)

    def _answered(self, question: K, ask: Callable[[], V], mine: Future[V], *, until: float) -> V:
        try:
            answer = ask()
        except BaseException as error:
            with self._lock:
                del self._queries[question]
            mine.set_exception(error)
            raise
        with self._lock:
            del self._queries[question]
            self._known[question] = answer, until
            self._known.move_to_end(question)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        mine.set_result(answer)
        return answer

    def __len__(self) -> int:
        """Number of cached answers, including those that are too old."""
        return len(self._known)


class KnownUsers(Generic[K]):
    """The last thousand clients that have been accepted. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[K, None] = OrderedDict()

    def __contains__(self, who: K) -> bool:
        """Whether the client has been accepted before."""
        with self._lock:
            return who in self._known

    def add(self, who: K) -> None:
        """Remember a client that has been accepted."""
        with self._lock:
            self._known[who] = None
            self._known.move_to_end(who)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)

    def drop(self, who: K) -> None:
        """Forget a client that has been refused."""
        with self._lock:
            self._known.pop(who, None)
