"""Nodes in the order of what a pod destroys there at least: kept between plans, put right where one changes.

What is lost grows with time, and by the same for all nodes where as many devices have to be freed. So nodes
are kept in lines: one for each number of such devices, sorted by when their work was saved.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge
from typing import Final, Protocol

from booking.eviction.share_floors import NEVER_LATER

KINDS: Final = 4
"""Number of kinds of pods (model, number of devices) for which the order is kept."""
MANY: Final = 8
"""Where more than this part of the nodes has changed, they are sorted anew."""


class OfModel(Protocol):
    """The devices of one model on one node; see ``holder_cache.ModelHolders``."""

    @property
    def idle(self) -> int:
        """Devices that can be had without an eviction."""
        ...

    @property
    def latest(self) -> tuple[int, ...]:
        """For each further device, when its holder's work was saved at the latest: the latest first."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether there are shares: what they lose at least is not known without looking at all sharers."""
        ...


class OfNode(Protocol):
    """The holders on one node."""

    @property
    def by_model(self) -> Mapping[str, OfModel]:
        """Model -> its devices and holders."""
        ...


Line = tuple[int, int]
"""Of nodes: how many devices have to be freed, and of how many of them it is known when work was saved."""
Least = Callable[[int, int, int], int]
"""``(sum of these instants, their number, number of devices to be freed)`` -> what is lost at least."""
_NOTHING: Final[Line] = (0, 0)


@dataclass(slots=True)
class _Order:
    """The nodes for one kind of pods."""

    lines: dict[Line, list[tuple[int, str]]] = field(default_factory=dict)
    """Line -> (sum of the instants, negative; node), sorted: the least loss first."""
    places: dict[str, tuple[Line, int]] = field(default_factory=dict)
    """Node -> its line, and its sum there."""
    stale: set[str] = field(default_factory=set)
    """Nodes that have to be read again."""

    def put(self, name: str, place: tuple[Line, int] | None) -> None:
        """A node has another place; None: too few devices can be had there."""
        before = self.places.pop(name, None)
        if before == place and place is not None:
            self.places[name] = place
            return
        if before is not None:
            line, saved = before
            there = self.lines[line]
            del there[bisect_left(there, (-saved, name))]
        if place is not None:
            self.places[name] = place
            insort(self.lines.setdefault(place[0], []), (-place[1], name))


class LossRanks:
    """The orders for the last few kinds. For one thread."""

    def __init__(self) -> None:
        self._orders: dict[tuple[str, int], _Order] = {}

    def changed(self, names: Iterable[str] | None) -> None:
        """These nodes have other holders than before; None: all may."""
        if names is None:
            self._orders = {}
            return
        for order in self._orders.values():
            order.stale.update(names)

    def ascending(
        self, nodes: Mapping[str, OfNode], model: str, need: int, least: Least
    ) -> Iterator[tuple[int, str]]:
        """(what is lost at least, node), the least first, for a pod that needs so many devices of a model.

        To be read before anything changes.
        """
        order = self._orders.pop((model, need), None)
        if order is None or MANY * len(order.stale) > len(nodes):
            order = _ordered(nodes, model, need)
        for name in order.stale:
            order.put(name, _place(nodes.get(name), model, need))
        order.stale = set()
        self._orders[model, need] = order
        if len(self._orders) > KINDS:
            del self._orders[next(iter(self._orders))]
        return merge(*(_of_line(line, there, least) for line, there in order.lines.items()))


def _ordered(nodes: Mapping[str, OfNode], model: str, need: int) -> _Order:
    made = _Order()
    for name, node in nodes.items():
        if place := _place(node, model, need):
            made.places[name] = line, saved = place
            made.lines.setdefault(line, []).append((-saved, name))
    for there in made.lines.values():
        there.sort()
    return made


def _of_line(line: Line, there: list[tuple[int, str]], least: Least) -> Iterator[tuple[int, str]]:
    missing, known = line
    return ((least(-saved, known, missing), name) for saved, name in there)


def _place(node: OfNode | None, model: str, need: int) -> tuple[Line, int] | None:
    found = node.by_model.get(model) if node else None
    if found is None:
        return None
    missing = need - found.idle
    if missing <= 0 or found.is_shared:
        return _NOTHING, 0
    if missing > len(found.latest):
        return None
    known = [saved for saved in found.latest[:missing] if saved != NEVER_LATER]
    return (missing, len(known)), sum(known)
