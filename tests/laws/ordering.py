"""Changes of several watches, put into the order in which they were written.

All kinds live in one etcd, so that resourceVersions say who was first; but each kind has a watch of its own,
and a watch may lag. A change is let out when every watch has shown something later, or when it has waited for
a while in which all watches were up. A watch that is down holds back the others: what it missed is unknown.
"""

import heapq
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

WAITS: Final = 0.5
"""Seconds that a change waits for watches that may lag."""


@dataclass(frozen=True, slots=True, order=True)
class Arrival:
    """One event of a watch, or a whole list.

    order: ``(resourceVersion, number of its arrival)``. at: monotonic seconds of its arrival. what: the
    event or list itself.
    """

    order: tuple[int, int]
    at: float = field(compare=False)
    what: Any = field(compare=False)


class Ordering:
    """A heap of arrivals, for one thread at a time."""

    def __init__(self, kinds: Iterable[str], *, waits: float = WAITS) -> None:
        self._waits = waits
        self._shown = dict.fromkeys(kinds, 0)
        self._up = dict.fromkeys(self._shown, False)
        self._up_since = 0.0
        self._pending: list[Arrival] = []
        self._arrivals = itertools.count()
        self._out = 0

    def up(self, kind: str, monotonic: float) -> None:
        """A watch is there, or there again."""
        if not self._up[kind]:
            self._up[kind], self._up_since = True, monotonic

    def down(self, kind: str) -> None:
        """A watch is broken."""
        self._up[kind] = False

    def put(self, kind: str, version: int, what: Any, monotonic: float) -> bool:
        """Something new of a kind; False when later ones were let out before it came."""
        self._shown[kind] = max(self._shown[kind], version)
        heapq.heappush(self._pending, Arrival((version, next(self._arrivals)), monotonic, what))
        return version >= self._out

    def ready(self, monotonic: float) -> Iterator[Any]:
        """The arrivals that can be let out now, in order."""
        while self._pending and self._may_go(self._pending[0], monotonic):
            first = heapq.heappop(self._pending)
            self._out = max(self._out, first.order[0])
            yield first.what

    def has_let_out(self, version: int) -> bool:
        """Whether everything up to this version has been let out, as far as any watch has delivered it."""
        return all(self._up.values()) and not any(one.order[0] <= version for one in self._pending)

    def _may_go(self, arrival: Arrival, monotonic: float) -> bool:
        if not all(self._up.values()):
            return False
        if all(shown >= arrival.order[0] for shown in self._shown.values()):
            return True
        return monotonic - max(arrival.at, self._up_since) >= self._waits
