"""Bookings as items, and what their pods say about where these are."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cluster.decide.witness.board import Placed, Shift
from cluster.decide.witness.row import Item

NOWHERE: Final = ""
"""The node of an item that has no place."""
STRAY: Final = 1_000_000
"""Serials of pods that run beside the node of their booking begin here."""


@dataclass(frozen=True, slots=True)
class Promise:
    """A booking, as far as its place is concerned."""

    key: str
    start: int
    end: int
    count: int
    is_whole: bool
    """All its devices are on one node."""
    plan: tuple[tuple[str, int], ...] = ()
    """(node, devices): where it stands."""

    def placed(self) -> list[Placed]:
        """Its items, with their nodes or ``NOWHERE``: one for a whole booking, else one for each device.

        A plan for more devices than it has is one from before it shrank.
        """
        if self.is_whole:
            at = self.plan[0][0] if len(self.plan) == 1 and self.plan[0][1] >= self.count else NOWHERE
            return [(Item(self.start, self.key, 0, self.end, self.count), at)]
        nodes = [node for node, count in self.plan for _ in range(count)][: self.count]
        if len(nodes) < self.count:
            nodes = [NOWHERE] * self.count
        return [
            (Item(self.start, self.key, serial, self.end, 1), node)
            for serial, node in enumerate(sorted(nodes))
        ]


def is_whole(count: int, topology: str) -> bool:
    """Whether a booking needs one node for all its devices; one device always has one."""
    return count > 1 and topology == "single-node"


def planned(places: Sequence[Placed]) -> tuple[tuple[str, int], ...]:
    """(node, devices) of a booking's items, by node."""
    found: dict[str, int] = {}
    for item, node in places:
        if item.serial < STRAY:
            found[node] = found.get(node, 0) + item.size
    return tuple(sorted(found.items()))


def strays(placed: Sequence[Placed], pods: Mapping[str, int]) -> list[Placed]:
    """Pods that run where their booking has no place, or not enough: they hold their devices all the same.

    Args:
        placed: the booking's items and their nodes.
        pods: node -> devices that its pods have there.
    """
    first, there = placed[0][0], dict(planned(placed))
    return [
        (Item(first.start, first.key, STRAY + number, first.end, pods[node] - there.get(node, 0)), node)
        for number, node in enumerate(sorted(pods))
        if pods[node] > there.get(node, 0)
    ]


def pin(shift: Shift, placed: Sequence[Placed], pods: Mapping[str, int]) -> list[Placed]:
    """Put a booking's items where its pods run.

    A whole booking follows its pods where there is room for all of it; where there is none, and for pods on
    other nodes than the rest, its place stays and those pods count beside it: when they end, the promise of
    one node is still kept.

    Args:
        shift: on which the booking stands as it is planned.
        placed: its items and their nodes, none of them ``NOWHERE``.
        pods: node -> devices that its pods have there.

    Returns:
        The items that may not be moved, with their nodes.
    """
    if len(placed) == 1 and placed[0][0].size > 1:
        return _pin_whole(shift, placed[0], pods)
    return _pin_each(shift, placed, pods)


def _pin_whole(shift: Shift, placed: Placed, pods: Mapping[str, int]) -> list[Placed]:
    item, node = placed
    for other in () if node in pods else sorted(pods, key=lambda name: (-pods[name], name)):
        shelf = shift.shelf(other)
        if shelf is not None and shelf.room(item.start, item.end) >= item.size:
            shift.take(item, node)
            shift.put(item, other)
            node = other
            break
    strays = [
        (Item(item.start, item.key, STRAY + number, item.end, count), name)
        for number, (name, count) in enumerate(sorted(pods.items()))
        if name != node and shift.shelf(name) is not None
    ]
    for stray, name in strays:
        shift.put(stray, name)
    return [*([(item, node)] if node in pods else []), *strays]


def _pin_each(shift: Shift, placed: Sequence[Placed], pods: Mapping[str, int]) -> list[Placed]:
    here: dict[str, list[Item]] = {}
    for item, node in placed:
        here.setdefault(node, []).append(item)
    spare = [(item, node) for node, items in here.items() for item in items[pods.get(node, 0) :]]
    pinned = [(item, node) for node, items in here.items() for item in items[: pods.get(node, 0)]]
    for item, node in _missing(here, pods, spare, shift):
        shift.put(item, node)
        pinned.append((item, node))
    return pinned


def _missing(
    here: Mapping[str, list[Item]], pods: Mapping[str, int], spare: list[Placed], shift: Shift
) -> Iterator[Placed]:
    """Items that are taken from where no pod of the booking runs, to where one does."""
    for node in sorted(pods):
        if shift.shelf(node) is None:
            continue
        for _ in range(pods[node] - len(here.get(node, ()))):
            if not spare:
                return
            item, old = spare.pop()
            shift.take(item, old)
            yield item, node
