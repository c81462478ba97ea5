"""The objects and the one sequence of resourceVersions over all kinds, as etcd keeps them.

A write is stored first and reported afterwards: to the watches, then to the listeners, in the order of the
writes even if a listener writes itself. An exception of a listener reaches the writer; the change stays.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from cluster.fake.history import ChangeView, History, StoredChange
from cluster.fake.selecting import Selector
from cluster.fake.state import Json, State
from cluster.kube.resources import Resource

FIRST: Final = 100
"""The resourceVersion before the first write: a server has written objects of its own when it starts."""

Listener = Callable[[ChangeView], None]
"""Called with every stored change, in order, while the server waits."""


class Table:
    """Objects of one kind in the order of their keys, which is the order of lists."""

    def __init__(self) -> None:
        self._states: dict[str, State] = {}
        self._keys: list[str] = []

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key: str) -> State | None:
        """The object under a key; None if there is none."""
        return self._states.get(key)

    def put(self, key: str, state: State) -> None:
        """Store under a key, new or not."""
        if key not in self._states:
            insort(self._keys, key)
        self._states[key] = state

    def drop(self, key: str) -> None:
        """Remove the object under a key."""
        del self._states[key]
        del self._keys[bisect_left(self._keys, key)]

    def all(self, namespace: str | None) -> Iterator[State]:
        """All objects, or those of a namespace."""
        if namespace is None:
            yield from (self._states[key] for key in self._keys)
            return
        prefix = key_of(namespace, "")
        for key in self._keys[bisect_left(self._keys, prefix) :]:
            if not key.startswith(prefix):
                return
            yield self._states[key]


class Store:
    """Everything that the API server holds."""

    def __init__(self, *, history: int) -> None:
        self.version = FIRST
        self.history = History(FIRST, history)
        self.listeners: list[Listener] = []
        self.watches: list[Callable[[StoredChange], None]] = []
        """Called before the listeners."""
        self._tables: dict[str, Table] = {}
        self._unreported: deque[StoredChange] = deque()
        self._reporting = False

    def table(self, plural: str) -> Table:
        """The objects of a kind."""
        return self._tables.setdefault(plural, Table())

    def find(self, plural: str, namespace: str | None, name: str) -> State | None:
        """One object; None if there is none."""
        return self.table(plural).find(key_of(namespace, name))

    def select(self, plural: str, selector: Selector) -> tuple[State, ...]:
        """The selected objects, in the order of their keys."""
        states = self.table(plural).all(selector.namespace)
        return tuple(state for state in states if selector.selects(state.obj))

    def write(self, resource: Resource[Any], obj: Json) -> State:
        """Store the next state of an object with the next resourceVersion, and report it."""
        self.version += 1
        metadata = {**obj["metadata"], "resourceVersion": str(self.version)}
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        now = State({**obj, **head, "metadata": metadata})
        key = key_of(metadata.get("namespace"), metadata["name"])
        table = self.table(resource.plural)
        was = table.find(key)
        table.put(key, now)
        self._report(StoredChange(self.version, resource.plural, was, now))
        return now

    def remove(self, resource: Resource[Any], state: State) -> None:
        """Remove an object, and report it."""
        self.version += 1
        key = key_of(state.metadata.get("namespace"), state.metadata["name"])
        table = self.table(resource.plural)
        was = table.find(key)
        table.drop(key)
        self._report(StoredChange(self.version, resource.plural, was, None))

    def _report(self, change: StoredChange) -> None:
        self.history.append(change)
        for watch in tuple(self.watches):
            watch(change)
        if change.was is not None:
            change.was.shrink()
        self._unreported.append(change)
        if self._reporting:
            return  # a listener writes: the outer call reports this change, too
        self._reporting = True
        try:
            while self._unreported:
                view = ChangeView(self._unreported.popleft())
                for listener in self.listeners:
                    listener(view)
        finally:
            self._reporting = False


def key_of(namespace: str | None, name: str) -> str:
    """The key of an object within its kind: as in etcd, the slash counts when keys are sorted."""
    return f"{namespace or ''}/{name}"
