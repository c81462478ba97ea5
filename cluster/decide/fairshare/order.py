"""Who is next: the two-level heap. Tenants by what they hold, a tenant's units by priority and age.

A device that is free is refused to nobody who fits: where the first unit of the first tenant finds no room,
that tenant's units of other sizes are tried, then the next tenant.
"""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import TypeVar

from cluster.decide.fairshare.books import Books
from cluster.decide.fairshare.line import Line, Size
from cluster.decide.fairshare.settings import Amount
from cluster.decide.fairshare.shares import Shares
from cluster.decide.fairshare.tenants import Tenant
from cluster.decide.fairshare.units import LineKey, Unit

T = TypeVar("T")
Place = Callable[[Unit], T | None]
"""Takes room for a unit in a simulation on the snapshot; None: it finds none.

What it took stays taken in this pass. Where it finds none, no unit of the same kind and size finds any.
"""
_Key = tuple[bool, Amount, int, int, Tenant]
"""Whether it has its quota, what it holds and has used by weight, since when its first unit waits, itself."""


def grants(line: Line, shares: Shares, books: Books, place: Place[T]) -> Iterator[tuple[Unit, T]]:
    """The units that start now, in this order, each with what ``place`` returned for it.

    Args:
        line: the waiting units; it must not change meanwhile.
        shares: who holds what before.
        books: past use, which decides ties.
        place: the simulated placement.

    Each is found when it is asked for, so a caller may stop after some.
    """
    return iter(_Heap(line, shares, books, place))


def in_turn(line: Line, shares: Shares, books: Books) -> Iterator[Unit]:
    """All waiting units in the order in which they start if all of them find room."""
    return (unit for unit, _ in grants(line, shares, books, lambda unit: unit))


class _Heap(Iterator[tuple[Unit, T]]):
    """A heap of nodes below the root, and one for each group; a tenant's units are read from the line."""

    def __init__(self, line: Line, shares: Shares, books: Books, place: Place[T]) -> None:
        self._line, self._tree, self._books, self._place = line, shares.tree, books, place
        self._held = dict(shares.held)
        self._waiting: dict[Tenant, list[tuple[LineKey, Size, int]]] = {}
        self._full: set[Size] = set()
        """Sizes for which no room is left."""
        self._levels: dict[str, list[tuple[_Key, Tenant]]] = {}
        self._first: dict[Tenant, int] = {}
        for tenant, sizes in line.tenants.items():
            self._first[tenant] = min(keys[0] for keys in sizes.values())[1]
            self._levels.setdefault(tenant.group, []).append((self._key(tenant), tenant))
        root = self._levels.setdefault("", [])
        for group, level in self._levels.items():
            heapify(level)
            if group:
                node = Tenant("", group)
                self._first[node] = self._first[level[0][1]]
                root.append((self._key(node), node))
        heapify(root)

    def __next__(self) -> tuple[Unit, T]:
        found = self._next(self._levels[""])
        if found is None:
            raise StopIteration
        return found

    def _next(self, level: list[tuple[_Key, Tenant]]) -> tuple[Unit, T] | None:
        while level:
            node = level[0][1]
            found = self._of_tenant(node) if node.user else self._next(self._levels[node.group])
            if found is None:
                heappop(level)
                continue
            if not node.user and self._levels[node.group]:
                self._first[node] = self._first[self._levels[node.group][0][1]]
            heapreplace(level, (self._key(node), node))
            return found
        return None

    def _of_tenant(self, tenant: Tenant) -> tuple[Unit, T] | None:
        """The tenant's first unit that finds room, which it then has."""
        waiting = self._waiting.get(tenant)
        if waiting is None:
            sizes = self._line.tenants[tenant]
            waiting = [(keys[0], size, 0) for size, keys in sizes.items() if size not in self._full]
            heapify(waiting)
            self._waiting[tenant] = waiting
        while waiting:
            (_, _, uid), size, index = heappop(waiting)
            unit = self._line.unit(uid)
            if size in self._full or self._is_beyond_limit(unit):
                continue
            placed = self._place(unit)
            if placed is None:
                self._full.add(size)
                continue
            keys = self._line.tenants[tenant][size]
            if index + 1 < len(keys):
                heappush(waiting, (keys[index + 1], size, index + 1))
            for node in self._tree.path(tenant):
                self._held[node] = self._held.get(node, 0) + unit.gpus
            if waiting:
                self._first[tenant] = waiting[0][0][1]
            return unit, placed
        return None

    def _is_beyond_limit(self, unit: Unit) -> bool:
        for node in self._tree.path(unit.tenant):
            limit = self._tree.standing(node).limit
            if limit is not None and self._held.get(node, 0) + unit.gpus > limit:
                return True
        return False

    def _key(self, node: Tenant) -> _Key:
        held, factor = self._held.get(node, 0), self._tree.factor(node)
        has_quota = held >= self._tree.standing(node).quota
        return (has_quota, held * factor, self._books.of(node).use * factor, self._first[node], node)
