"""The history: every change in the order of its resourceVersion, as etcd and the watch cache keep it.

Only the newest changes are kept, so that a simulation of weeks does not use up the memory: a watch that is to
begin before them is answered 410, as after a compaction.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from cluster.fake.state import Json, State


@dataclass(frozen=True, slots=True)
class StoredChange:
    """One write: the object before and after it, each None if there was none."""

    version: int
    plural: str
    was: State | None
    now: State | None


class ChangeView:
    """A change as reported to listeners."""

    def __init__(self, change: StoredChange) -> None:
        self._change = change
        self.version = change.version
        self.plural = change.plural

    @cached_property
    def before(self) -> Json | None:
        """A copy of the object before; None if it did not exist."""
        return None if self._change.was is None else self._change.was.copy()

    @cached_property
    def after(self) -> Json | None:
        """A copy of the object after; None if it is gone."""
        return None if self._change.now is None else self._change.now.copy()


class History:
    """The newest changes of all objects, from which watches resume; older ones are forgotten."""

    def __init__(self, first: int, length: int) -> None:
        self._changes: deque[StoredChange] = deque()
        self._length = length
        self.oldest = first
        """No watch can begin before this version."""

    def append(self, change: StoredChange) -> None:
        """Keep a change, and drop the oldest one if there are too many."""
        self._changes.append(change)
        if len(self._changes) > self._length:
            self.oldest = self._changes.popleft().version

    def since(self, version: int) -> Iterator[StoredChange]:
        """The changes after a version, oldest first."""
        newer = list(takewhile(lambda change: change.version > version, reversed(self._changes)))
        return reversed(newer)

    def forget(self, newest: int) -> None:
        """Compact, as etcd does: a watch can begin at ``newest`` or later, no earlier."""
        self.oldest = newest
        self._changes.clear()
