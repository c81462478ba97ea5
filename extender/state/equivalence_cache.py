"""Which nodes fit which request, cached from one verb to the next; ``filter`` and ``requeue`` use it.

For each recent request there is an equivalence class with every node's verdict. When it is needed again, only
nodes that have changed since are judged again (``predicates.rejection``): those with a new view, or whose
agent's state has changed, possibly by time alone. The cluster cache's lock is held while the changes are
read, some nodes at a time; judging needs no lock, since views never change.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Final

import msgspec

from cluster.cache import ClusterCache, NodeSnapshot
from cluster.decide.ledger import Ledger, NodeView
from cluster.decide.ledger.changes import Changes
from cluster.decide.predicates import rejection
from cluster.decide.request import GpuRequest, RequestKey
from cluster.process.clock import Clock
from extender.state.agent_states import Agents
from extender.state.equivalence_class import EquivalenceClass
from extender.state.ranks import Ranks

VERDICTS: Final = 50_000
"""Maximum number of nodes' verdicts to keep over all classes; but at least ``MIN_CLASSES`` are kept."""
MIN_CLASSES: Final = 8
AT_A_TIME: Final = 200
"""Number of nodes to read under the cluster cache's lock before others may have it."""
Score = Callable[[GpuRequest, NodeView], int]
"""``(request, node on which it fits)`` -> points; the same for the same values."""


class EquivalenceCache:
    """The equivalence classes, and the nodes as they were at the last use."""

    def __init__(self, cache: ClusterCache, clock: Clock, *, verdicts: int = VERDICTS) -> None:
        """Args: verdicts: maximum number of nodes' verdicts to keep."""
        self._cache = cache
        self._clock = clock
        self._lock = threading.RLock()
        self._node_snapshots: dict[str, NodeSnapshot] = {}
        self._names = frozenset[str]()
        self._changes = Changes()
        self._views_at = -1
        self._agents = Agents(cache)
        self._verdicts = verdicts
        self._score: Score | None = None
        self._classes: OrderedDict[RequestKey, tuple[EquivalenceClass, int]] = OrderedDict()

    @contextmanager
    def class_of(
        self, request: GpuRequest, score: Score | None = None
    ) -> Iterator[tuple[EquivalenceClass, frozenset[str]]]:
        """The verdicts of all nodes on a request at this instant, and the nodes' names.

        The pod's own hold and nomination are ignored. Nothing else can use this cache while the class is in
        use.

        Args:
            request: the request.
            score: by what the nodes that fit are ranked; the same function in all calls. Without it the class
                may come without ranks.
        """
        with self._lock:
            self._refresh()
            self._score = score or self._score
            found = self._renewed(request)
            if score and found.ranks is None:
                found.ranks = Ranks()
                for name in found.fitting:
                    found.ranks.write(name, score(found.request, self._node_snapshots[name][0]))
            yield found, self._names

    @property
    def number(self) -> int:
        """Number of the newest change seen: an answer given now includes it, and maybe later ones."""
        return self._changes.number

    def numbered_since(self, number: int) -> Mapping[str, int] | None:
        """Nodes that have changed after a number -> number of the change; None if it may be any node."""
        with self._lock:
            return self._changes.numbered_since(number)

    @property
    def names(self) -> frozenset[str]:
        """Names of all nodes, as of the last use."""
        return self._names

    def __len__(self) -> int:
        """Number of classes kept."""
        return len(self._classes)

    def changed(self, number: int) -> tuple[frozenset[str], int]:
        """Nodes that have changed since a number (-1 for all nodes), and the present number."""
        with self._lock:
            self._refresh()
            names = None if number < 0 else self._changes.since(number)
            return (self._names if names is None else frozenset(names)), self._changes.number

    # --- inside --------------------------------------------------------------------------------------
    def _refresh(self) -> None:
        """Read which nodes have changed since the last time."""
        for name, snapshot in self._changed_snapshots():
            before = self._node_snapshots.get(name)
            if snapshot is None:
                self._node_snapshots.pop(name, None)
            else:
                self._node_snapshots[name] = snapshot
            if before is None or snapshot is None or before[0] is not snapshot[0] or before[1] != snapshot[1]:
                self._changes.note(name, existing=len(self._node_snapshots))
            if (before is None) != (snapshot is None):
                self._names = frozenset()
        if not self._names:
            # Copies that are adjacent in memory, since they are compared with the names of every request.
            text = msgspec.json.encode(list(self._node_snapshots))
            # A frozenset built from a set has a table half as large as one built from a list.
            self._names = frozenset(msgspec.json.decode(text, type=set[str]))

    def _changed_snapshots(self) -> Iterator[tuple[str, NodeSnapshot | None]]:
        with self._cache.locked() as ledger:
            self._cache.serve_nominated()
            now = self._clock.monotonic()
            changed = ledger.changed_since(self._views_at)
            stale = self._agents.changed(now)
            everything = changed is None or stale is None
            recheck = (
                chain(ledger.nodes(), self._node_snapshots)
                if everything
                else chain(changed or (), stale or ())
            )
            names = list(dict.fromkeys(recheck))
            self._views_at = ledger.generation
            # Usually these are all. While a list is read, each turn at the lock takes a millisecond or two.
            some = self._read(ledger, names[:AT_A_TIME], now)
        yield from some
        for begin in range(AT_A_TIME, len(names), AT_A_TIME):
            with self._cache.locked() as ledger:
                now = self._clock.monotonic()
                some = self._read(ledger, names[begin : begin + AT_A_TIME], now)
            yield from some

    def _read(
        self, ledger: Ledger, names: Iterable[str], now: float
    ) -> list[tuple[str, NodeSnapshot | None]]:
        found: list[tuple[str, NodeSnapshot | None]] = []
        for name in names:
            view = ledger.view(name) if ledger.exists(name) else None
            found.append((name, (view, self._agents.state(view, now)) if view else None))
        return found

    def _renewed(self, request: GpuRequest) -> EquivalenceClass:
        equivalence, at = self._classes.pop(request.key, (None, -1))
        if equivalence is None:
            equivalence = EquivalenceClass(replace(request, uid="", hold=None))
        names = None if at < 0 else self._changes.since(at)
        for name in (
            (*self._node_snapshots, *equivalence.names() - self._node_snapshots.keys())
            if names is None
            else names
        ):
            snapshot = self._node_snapshots.get(name)
            if snapshot is None:
                equivalence.forget(name)
                continue
            reason = rejection(equivalence.request, *snapshot)
            equivalence.write(name, reason)
            if reason is None and equivalence.ranks and self._score:
                equivalence.ranks.write(name, self._score(equivalence.request, snapshot[0]))
        self._classes[request.key] = (equivalence, self._changes.number)
        while len(self._classes) > max(MIN_CLASSES, self._verdicts // max(1, len(self._node_snapshots))):
            self._classes.popitem(last=False)
        return equivalence
