"""What the API server has said, remembered for ten seconds; and who has been let in before."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from cluster.process.clock import Clock

REMEMBERED_SECONDS: Final = 10.0
REMEMBERED: Final = 1024
"""Answers that are remembered at one time."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Question -> answer. Failures are not remembered. For many threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[K, tuple[V, float]] = OrderedDict()

    def get(self, question: K, ask: Callable[[], V]) -> V:
        """The answer that is known, or a new one."""
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
        """How many are kept, those that are too old among them."""
        return len(self._known)


class KnownUsers(Generic[K]):
    """Those who have been let in before, the last thousand of them. For many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[K, None] = OrderedDict()

    def __contains__(self, who: K) -> bool:
        """Whether somebody has been let in before."""
        with self._lock:
            return who in self._known

    def add(self, who: K) -> None:
        """Remember somebody who has been let in."""
        with self._lock:
            self._known[who] = None
            self._known.move_to_end(who)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)

    def drop(self, who: K) -> None:
        """Forget somebody who has been refused."""
        with self._lock:
            self._known.pop(who, None)
