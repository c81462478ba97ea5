"""Which nodes fit which wish, kept from question to question: ``filter`` and ``wake`` look here.

For each wish that was asked about lately there is a sheet with the answer of every node. When it is asked for
again, only those nodes are judged anew (``predicates.obstacle``) that have changed since: their view, or the
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

from cluster.decide.ledger import Ledger
from cluster.decide.ledger.changes import Changes
from cluster.decide.predicates import obstacle
from cluster.decide.wish import Key, Wish
from cluster.picture import Look, Picture
from cluster.runtime.clock import Clock
from extender.agents import Agents
from extender.sheet import Sheet

VERDICTS: Final = 50_000
"""Answers of nodes that are kept at most, all sheets together; but some sheets in any case."""
LEAST_SHEETS: Final = 8
AT_A_TIME: Final = 200
"""Nodes that are looked at under the picture's lock before others may have it."""


class Index:
    """The sheets, and the nodes as they were when somebody asked last."""

    def __init__(self, picture: Picture, clock: Clock, *, verdicts: int = VERDICTS) -> None:
        """Args: verdicts: answers of nodes that are kept at most."""
        self._picture = picture
        self._clock = clock
        self._lock = threading.RLock()
        self._looks: dict[str, Look] = {}
        self._names = frozenset[str]()
        self._changes = Changes()
        self._views_at = -1
        self._agents = Agents(picture)
        self._verdicts = verdicts
        self._sheets: OrderedDict[Key, tuple[Sheet, int]] = OrderedDict()

    @contextmanager
    def sheet(self, wish: Wish) -> Iterator[tuple[Sheet, frozenset[str]]]:
        """The answers of all nodes to a wish at this instant, and their names.

        What is kept for the pod itself, and where it is nominated, is left aside. Nobody else uses the index
        while the sheet is in use.
        """
        with self._lock:
            self._refresh()
            yield self._renewed(wish), self._names

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
        for name, look in self._news():
            before = self._looks.get(name)
            if look is None:
                self._looks.pop(name, None)
            else:
                self._looks[name] = look
            if before is None or look is None or before[0] is not look[0] or before[1] != look[1]:
                self._changes.note(name, existing=len(self._looks))
            if (before is None) != (look is None):
                self._names = frozenset()
        if not self._names:
            # Copies, one beside the other in memory: they are compared with those of every question.
            text = msgspec.json.encode(list(self._looks))
            # Made from a set its table is half as large as made from a list.
            self._names = frozenset(msgspec.json.decode(text, type=set[str]))

    def _news(self) -> Iterator[tuple[str, Look | None]]:
        with self._picture.locked() as ledger:
            self._picture.serve_nominated()
            now = self._clock.monotonic()
            changed = ledger.changed_since(self._views_at)
            stale = self._agents.changed(now)
            everything = changed is None or stale is None
            told = chain(ledger.nodes(), self._looks) if everything else chain(changed or (), stale or ())
            names = list(dict.fromkeys(told))
            self._views_at = ledger.generation
            # Mostly all of them: while a list is read each turn at the lock takes a millisecond or two.
            some = self._looked(ledger, names[:AT_A_TIME], now)
        yield from some
        for begin in range(AT_A_TIME, len(names), AT_A_TIME):
            with self._picture.locked() as ledger:
                now = self._clock.monotonic()
                some = self._looked(ledger, names[begin : begin + AT_A_TIME], now)
            yield from some

    def _looked(self, ledger: Ledger, names: Iterable[str], now: float) -> list[tuple[str, Look | None]]:
        found: list[tuple[str, Look | None]] = []
        for name in names:
            view = ledger.view(name) if ledger.exists(name) else None
            found.append((name, (view, self._agents.state(view, now)) if view else None))
        return found

    def _renewed(self, wish: Wish) -> Sheet:
        sheet, at = self._sheets.pop(wish.key, (None, -1))
        if sheet is None:
            sheet = Sheet(replace(wish, uid="", pin=None))
        names = None if at < 0 else self._changes.since(at)
        for name in (*self._looks, *sheet.names() - self._looks.keys()) if names is None else names:
            look = self._looks.get(name)
            if look is None:
                sheet.forget(name)
            else:
                sheet.write(name, obstacle(sheet.wish, *look))
        self._sheets[wish.key] = (sheet, self._changes.number)
        while len(self._sheets) > max(LEAST_SHEETS, self._verdicts // max(1, len(self._looks))):
            self._sheets.popitem(last=False)
        return sheet
