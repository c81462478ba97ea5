"""All nodes with devices of one model, and a place on them for every item.

A ``ModelPlan`` is the present plan and is never changed. A ``PlanAttempt`` is an attempt on top of it: it
adds items, moves others if it must, and is thrown away or stored. It never puts more on a node than the
node has at that time, so any plan that it finds is valid; it may miss one that a longer search would find.

The search has a limit of steps and reads no clock, so its result is the same everywhere. It tries in turn:

1. the node with the smallest room that is large enough (best fit);
2. if there is none, to make room on a node: items that are in the way and have not begun are placed elsewhere
   in the same way, to a small depth;
3. at last, to place again all movable items that overlap, directly or through others: the largest first, then
   by start, with backtracking. For single devices on nodes without blocks that order always succeeds if the
   sum fits (interval graphs are perfect).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import groupby, islice, pairwise
from operator import itemgetter
from typing import Final

from cluster.decide.booking_plan.item_list import Item
from cluster.decide.booking_plan.node_plan import NodePlan
from cluster.decide.booking_plan.timeline import INDEFINITELY, Load

STEPS: Final = 2_000
"""Number of places to try for one request."""
DEPTH: Final = 4
"""Length of the longest chain of items that make room for each other."""
CROWD: Final = 600
"""At most this many items are placed again together."""
SPANS: Final = 100
"""Number of time spans for which a plan caches what is free on its nodes."""

_ANYWHERE: Final[Mapping[Item, str]] = {}

Block = tuple[str, int, int, int]
"""``(node, start, end, count)``: so many devices are not available then."""


Placed = tuple[Item, str]
"""An item and its node."""
Span = tuple[int, int]
Room = tuple[int, str]


class ModelPlan:
    """Which node each item of a model has; what is free on each node over time."""

    def __init__(
        self,
        devices: Mapping[str, int],
        placed: Iterable[Placed] = (),
        blocks: Iterable[Block] = (),
    ) -> None:
        """Items whose node is not in ``devices`` become ``unplaced``, for the repair of the plan."""
        items: dict[str, list[Item]] = {}
        unplaced: list[Item] = []
        for item, node in placed:
            if node in devices:
                items.setdefault(node, []).append(item)
            else:
                unplaced.append(item)
        self.unplaced = tuple(sorted(unplaced))
        """Items without a place."""
        loads: dict[str, list[Load]] = {}
        for node, start, end, count in blocks:
            if node in devices:
                loads.setdefault(node, []).append((start, end, min(count, devices[node])))
        self.node_plans = {
            name: NodePlan.of(count, items.get(name, ()), loads.get(name, ()))
            for name, count in sorted(devices.items())
        }
        self._rooms: dict[Span, list[Room]] = {}

    def rooms(self, start: int, end: int) -> list[Room]:
        """(devices that are free all the time, node) of every node, the smallest room first.

        The list is cached: do not change it.
        """
        found = self._rooms.get((start, end))
        if found is None:
            found = sorted((node_plan.room(start, end), name) for name, node_plan in self.node_plans.items())
            if len(self._rooms) >= SPANS:
                self._rooms = {}
            self._rooms[start, end] = found
        return found

    def changed(self, without: Iterable[Placed], more: Iterable[Placed]) -> "ModelPlan":
        """A copy without some placed items and with others."""
        made = ModelPlan({})
        made.node_plans = dict(self.node_plans)
        unplaced = set(self.unplaced)
        for pairs, is_put in ((without, False), (more, True)):
            for item, node in pairs:
                if node not in made.node_plans:
                    (unplaced.add if is_put else unplaced.discard)(item)
                    continue
                node_plan = made.node_plans[node]
                made.node_plans[node] = node_plan.plus(item) if is_put else node_plan.minus(item)
        made.unplaced = tuple(sorted(unplaced))
        return made

    def overfull(self, start: int) -> Iterator[tuple[str, int, int]]:
        """(node, from, until) wherever more is placed than the node has, from ``start`` on."""
        for name, node_plan in self.node_plans.items():
            # Usually none is, which the highest level shows without a check of every change.
            if node_plan.load.most(start, INDEFINITELY) <= node_plan.devices:
                continue
            turns = [*node_plan.load.levels_in(start, INDEFINITELY), (INDEFINITELY, 0)]
            for (at, level), (until, _) in pairwise(turns):
                if level > node_plan.devices:
                    yield name, at, until

    def first_gap(self, not_before: int, length: int, size: int) -> int | None:
        """The first instant from which a node has room for so long, with nothing moved; None without one."""
        found = (
            node_plan.load.first_gap(not_before, length, node_plan.devices - size)
            for node_plan in self.node_plans.values()
            if node_plan.devices >= size
        )
        return min((at for at in found if at is not None), default=None)


class PlanAttempt:
    """An attempt to place more items in a plan, which itself stays as it is."""

    def __init__(
        self,
        plan: ModelPlan,
        *,
        fixed_until: int,
        steps: int = STEPS,
    ) -> None:
        """An attempt.

        Args:
            plan: the present plan.
            fixed_until: items that begin by then are not moved for others.
            steps: maximum number of places to try.
        """
        self._fixed_until = fixed_until
        self._pinned: set[Item] = set()
        self._only: Mapping[Item, str] = {}
        self._plan = plan
        self._node_plans = dict(plan.node_plans)
        self._touched: dict[str, int] = {}
        """Node -> how often it is in the journal. Nodes that are not here are as in the plan."""
        self._journal: list[tuple[Item, str | None, str, NodePlan]] = []
        """(item put or taken, its node in ``_home`` before, the node concerned, that node's plan before)."""
        self._home: dict[Item, str] = {}
        self._left = steps

    @property
    def places(self) -> Mapping[Item, str]:
        """Item -> node, of every item that was placed or moved."""
        return self._home

    @property
    def left(self) -> int:
        """The number of places that it may still try."""
        return max(0, self._left)

    def node_plan(self, node: str) -> NodePlan | None:
        """A node as it is after the attempt so far; None for an unknown one."""
        return self._node_plans.get(node)

    def plan(self) -> ModelPlan:
        """The resulting plan. The attempt must not be used afterwards: both share their state."""
        made = ModelPlan({})
        made.node_plans = self._node_plans
        return made

    # --- what is known from elsewhere ----------------------------------------------------------------
    def put(self, item: Item, node: str) -> None:
        """Place an item on a node, whether it fits or not."""
        self._note(item, self._home.get(item), node)
        self._node_plans[node] = self._node_plans[node].plus(item)
        self._home[item] = node

    def take(self, item: Item, node: str) -> None:
        """Remove an item from its node."""
        self._note(item, self._home.pop(item, None), node)
        self._node_plans[node] = self._node_plans[node].minus(item)

    def fix(self, items: Iterable[Item]) -> None:
        """Do not move these items either: their pods run where they are."""
        self._pinned.update(items)

    # --- searching -----------------------------------------------------------------------------------
    def place_all(self, items: Sequence[Item], only: Mapping[Item, str] = _ANYWHERE) -> bool:
        """Find a place for all these items. Returns False, and changes nothing, if there is none.

        Args:
            items: items without a place.
            only: item -> the node on which it must be, for some of them.
        """
        mark = len(self._journal)
        self._only = only
        ordered = sorted(items, key=_by_size)
        if all(self._direct(item) for item in ordered):
            return True
        self._undo(mark)
        if all(self._find(item, frozenset(items), DEPTH) for item in ordered):
            return True
        self._undo(mark)
        if self._replan(ordered):
            return True
        self._undo(mark)
        return False

    def _direct(self, item: Item) -> bool:
        """Put an item on the node where the least room is left over; False if no node has room."""
        _, node = next(self._larger(item), (0, None))
        if node is None:
            return False
        self.put(item, node)
        return True

    def _larger(self, item: Item) -> Iterator[Room]:
        """(room, node) of the nodes with enough room, the smallest first, then by name."""
        some = sorted(room for room in self._named(item) if room[0] >= item.size)
        if item in self._only:
            return iter(some)
        rooms = self._plan.rooms(item.start, item.end)
        fits = islice(rooms, bisect_left(rooms, (item.size, "")), None)
        return merge((room for room in fits if room[1] not in self._touched), some)

    def _by_room(self, item: Item) -> Iterator[str]:
        """Nodes that are large enough, whatever is there: the largest room first, then by name."""
        some = sorted((-room, name) for room, name in self._named(item))
        every: Iterator[Room] = iter(())
        if item not in self._only:
            by_room = groupby(reversed(self._plan.rooms(item.start, item.end)), key=itemgetter(0))
            every = ((-room, name) for room, same in by_room for _, name in sorted(same))
        untouched = (room for room in every if room[1] not in self._touched)
        return (name for _, name in merge(untouched, some) if self._node_plans[name].devices >= item.size)

    def _named(self, item: Item) -> Iterator[Room]:
        """(room, node) of the nodes to check one by one: the item's only node, or all touched ones."""
        only = self._only.get(item)
        names = self._touched if only is None else [only] if only in self._node_plans else []
        return ((self._node_plans[name].room(item.start, item.end), name) for name in names)

    def _find(self, item: Item, locked: frozenset[Item], depth: int) -> bool:
        if self._direct(item):
            return True
        if depth == 0 or not self._spend():
            return False
        # A failed attempt on a node leaves everything as it was: the nodes stay in this order.
        return any(self._clear(item, name, (), locked, depth=depth) for name in self._by_room(item))

    def _clear(
        self, item: Item, node: str, out: tuple[Item, ...], locked: frozenset[Item], *, depth: int
    ) -> bool:
        """Make room on a node, place the item there, and place elsewhere the items that had to go."""
        node_plan, mark = self._node_plans[node], len(self._journal)
        at, level = node_plan.load.busiest(item.start, item.end)
        if level + item.size <= node_plan.devices:
            self.put(item, node)
            barred = locked | {item, *out}
            if all(self._find(one, barred, depth - 1) for one in sorted(out, key=_by_size)):
                return True
            self._undo(mark)
            return False
        in_the_way = (
            one for one in node_plan.overlapping(at, at + 1) if self._moves(one) and one not in locked
        )
        for one in sorted(in_the_way, key=_by_size, reverse=True):
            if not self._spend():
                return False
            self.take(one, node)
            if self._clear(item, node, (*out, one), locked, depth=depth):
                return True
            self._undo(mark)
        return False

    def _replan(self, items: Sequence[Item]) -> bool:
        """Place these items, and place again all movable items that overlap with them."""
        limit = min(CROWD, self.left)
        if len(items) > limit:
            return False
        crowd = self._crowd(items, limit)
        self._left -= len(crowd) // 4
        if len(crowd) + len(items) > limit:
            return False
        for item, node in crowd:
            self.take(item, node)
        ordered = sorted([*items, *(item for item, _ in crowd)], key=_by_size)
        options = [iter(self._fitting(ordered[0]))]
        marks: list[int] = []
        while self._spend():
            chosen = next(options[-1], None)
            if chosen is None:
                options.pop()
                if not options:
                    return False
                self._undo(marks.pop())
                continue
            marks.append(len(self._journal))
            self.put(ordered[len(options) - 1], chosen)
            if len(options) == len(ordered):
                return True
            options.append(iter(self._fitting(ordered[len(options)])))
        return False

    def _crowd(self, items: Sequence[Item], limit: int) -> list[Placed]:
        """Movable items that overlap with these, directly or through others; not all if there are many."""
        start, end = min(item.start for item in items), max(item.end for item in items)
        while True:
            found = [
                (one, name)
                for name, node_plan in self._node_plans.items()
                for one in node_plan.overlapping(start, end)
                if self._moves(one)
            ]
            earliest = min((one.start for one, _ in found), default=start)
            latest = max((one.end for one, _ in found), default=end)
            if (earliest >= start and latest <= end) or len(found) > limit:
                return found
            start, end = min(start, earliest), max(end, latest)

    def _moves(self, item: Item) -> bool:
        """Whether it may be moved for others."""
        return item.start > self._fixed_until and item not in self._pinned

    # --- inside --------------------------------------------------------------------------------------
    def _fitting(self, item: Item) -> list[str]:
        return [name for _, name in self._larger(item)]

    def _note(self, item: Item, home: str | None, node: str) -> None:
        self._journal.append((item, home, node, self._node_plans[node]))
        self._touched[node] = self._touched.get(node, 0) + 1

    def _spend(self) -> bool:
        self._left -= 1
        return self._left >= 0

    def _undo(self, mark: int) -> None:
        while len(self._journal) > mark:
            item, home, node, node_plan = self._journal.pop()
            self._node_plans[node] = node_plan
            self._touched[node] -= 1
            if not self._touched[node]:
                del self._touched[node]
            if home is None:
                self._home.pop(item, None)
            else:
                self._home[item] = home


def _by_size(item: Item) -> tuple[int, Item]:
    return -item.size, item
