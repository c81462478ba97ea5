"""Answers of the API server, cached for ten seconds; and clients that have been accepted before."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from cluster.process.clock import Clock

REMEMBERED_SECONDS: Final = 10.0
REMEMBERED: Final = 1024
"""Maximum number of cached answers."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Question -> answer. Failures are not cached. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[K, tuple[V, float]] = OrderedDict()

    def get(self, question: K, ask: Callable[[], V]) -> V:
        """The cached answer, or a new one."""
        now = self._clock.monotonic()
        with self._lock:
            known = self._known.get(question)
        if known and now < known[1]:
            return known[0]
        answer = ask()
        with self._lock:
            self._known[question] = answer, now + REMEMBERED_SECONDS
            self._known.move_to_end(question)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
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
