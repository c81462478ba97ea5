"""Which nodes fit which wish, kept from question to question: ``filter`` and ``requeue`` look here.

For each wish that was asked about lately there is a sheet with the answer of every node. When it is asked for
again, only those nodes are judged anew (``predicates.rejection``) that have changed since: their view, or the
state of their agent, which changes by time alone, too. The picture's lock is held for what has changed, some
nodes at a time; judging needs none of it, since views never change.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Final

import msgspec

from cluster.cache import ClusterCache, NodeSnapshot
from cluster.decide.ledger import Ledger
from cluster.decide.ledger.changes import Changes
from cluster.decide.predicates import rejection
from cluster.decide.request import GpuRequest, RequestKey
from cluster.process.clock import Clock
from extender.agent_states import Agents
from extender.equivalence_class import EquivalenceClass

VERDICTS: Final = 50_000
"""Answers of nodes that are kept at most, all sheets together; but some sheets in any case."""
MIN_CLASSES: Final = 8
AT_A_TIME: Final = 200
"""Nodes that are looked at under the picture's lock before others may have it."""


class EquivalenceCache:
    """The sheets, and the nodes as they were when somebody asked last."""

    def __init__(self, cache: ClusterCache, clock: Clock, *, verdicts: int = VERDICTS) -> None:
        """Args: verdicts: answers of nodes that are kept at most."""
        self._cache = cache
        self._clock = clock
        self._lock = threading.RLock()
        self._node_snapshots: dict[str, NodeSnapshot] = {}
        self._names = frozenset[str]()
        self._changes = Changes()
        self._views_at = -1
        self._agents = Agents(cache)
        self._verdicts = verdicts
        self._sheets: OrderedDict[RequestKey, tuple[EquivalenceClass, int]] = OrderedDict()

    @contextmanager
    def class_of(self, request: GpuRequest) -> Iterator[tuple[EquivalenceClass, frozenset[str]]]:
        """The answers of all nodes to a wish at this instant, and their names.

        What is kept for the pod itself, and where it is nominated, is left aside. Nobody else uses the index
        while the sheet is in use.
        """
        with self._lock:
            self._refresh()
            yield self._renewed(request), self._names

    @property
    def number(self) -> int:
        """Of the newest change that was seen: whoever asks now is answered with this and what came later."""
        return self._changes.number

    def numbered_since(self, number: int) -> Mapping[str, int] | None:
        """Nodes that have changed after a number, and when, as far as was seen; None where it may be any."""
        with self._lock:
            return self._changes.numbered_since(number)

    @property
    def names(self) -> frozenset[str]:
        """All nodes, as of the last question."""
        return self._names

    def __len__(self) -> int:
        """How many sheets are kept."""
        return len(self._sheets)

    def changed(self, number: int) -> tuple[frozenset[str], int]:
        """Nodes that are not as they were at a number of before, and the number of now; of all, give -1."""
        with self._lock:
            self._refresh()
            names = None if number < 0 else self._changes.since(number)
            return (self._names if names is None else frozenset(names)), self._changes.number

    # --- inside --------------------------------------------------------------------------------------
    def _refresh(self) -> None:
        """See which nodes have changed since the last time."""
        for name, snapshot in self._news():
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
            # Copies, one beside the other in memory: they are compared with those of every question.
            text = msgspec.json.encode(list(self._node_snapshots))
            # Made from a set its table is half as large as made from a list.
            self._names = frozenset(msgspec.json.decode(text, type=set[str]))

    def _news(self) -> Iterator[tuple[str, NodeSnapshot | None]]:
        with self._cache.locked() as ledger:
            self._cache.serve_nominated()
            now = self._clock.monotonic()
            changed = ledger.changed_since(self._views_at)
            stale = self._agents.changed(now)
            everything = changed is None or stale is None
            told = (
                chain(ledger.nodes(), self._node_snapshots)
                if everything
                else chain(changed or (), stale or ())
            )
            names = list(dict.fromkeys(told))
            self._views_at = ledger.generation
            # Mostly all of them: while a list is read each turn at the lock takes a millisecond or two.
            some = self._looked(ledger, names[:AT_A_TIME], now)
        yield from some
        for begin in range(AT_A_TIME, len(names), AT_A_TIME):
            with self._cache.locked() as ledger:
                now = self._clock.monotonic()
                some = self._looked(ledger, names[begin : begin + AT_A_TIME], now)
            yield from some

    def _looked(
        self, ledger: Ledger, names: Iterable[str], now: float
    ) -> list[tuple[str, NodeSnapshot | None]]:
        found: list[tuple[str, NodeSnapshot | None]] = []
        for name in names:
            view = ledger.view(name) if ledger.exists(name) else None
            found.append((name, (view, self._agents.state(view, now)) if view else None))
        return found

    def _renewed(self, request: GpuRequest) -> EquivalenceClass:
        equivalence, at = self._sheets.pop(request.key, (None, -1))
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
            else:
                equivalence.write(name, rejection(equivalence.request, *snapshot))
        self._sheets[request.key] = (equivalence, self._changes.number)
        while len(self._sheets) > max(MIN_CLASSES, self._verdicts // max(1, len(self._node_snapshots))):
            self._sheets.popitem(last=False)
        return equivalence
