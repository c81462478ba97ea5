"""A sorted list of items that is never changed: copies share the pieces in which they do not differ."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final, NamedTuple

LENGTH: Final = 64
"""Number of items in a new piece; a piece is split when it has twice as many."""


class Item(NamedTuple):
    """Devices of one booking that stay on one node for as long as it lasts."""

    start: int
    key: str
    """The booking's id."""
    serial: int
    """Which of the booking's items it is."""
    end: int
    size: int


class ItemList:
    """Items sorted by start. It is never changed."""

    __slots__ = ("_begins", "_pieces")

    def __init__(self, items: Iterable[Item] = ()) -> None:
        ordered = sorted(items)
        self._pieces = [ordered[first : first + LENGTH] for first in range(0, len(ordered), LENGTH)]
        self._begins = [piece[0] for piece in self._pieces]
        """The first item of each piece."""

    def plus(self, item: Item) -> "ItemList":
        """A copy with one more item."""
        at = self._piece_of(item)
        piece = self._pieces[at].copy() if self._pieces else []
        insort(piece, item)
        middle = len(piece) // 2
        return self._with(at, [piece] if len(piece) < 2 * LENGTH else [piece[:middle], piece[middle:]])

    def minus(self, item: Item) -> "ItemList":
        """A copy without an item that is in this list."""
        at = self._piece_of(item)
        piece = self._pieces[at].copy()
        piece.remove(item)
        return self._with(at, [piece] if piece else [])

    def since(self, start: int) -> Iterator[Item]:
        """The items that begin at an instant or later."""
        at = max(0, bisect_left(self._begins, (start,)) - 1)
        for piece in islice(self._pieces, at, at + 1):
            yield from piece[bisect_left(piece, (start,)) :]
        yield from chain.from_iterable(islice(self._pieces, at + 1, None))

    def __iter__(self) -> Iterator[Item]:
        """All items, by start."""
        return chain.from_iterable(self._pieces)

    def _piece_of(self, item: Item) -> int:
        return max(0, bisect_right(self._begins, item) - 1)

    def _with(self, at: int, pieces: list[list[Item]]) -> "ItemList":
        made = ItemList()
        made._pieces = [*self._pieces[:at], *pieces, *self._pieces[at + 1 :]]
        made._begins = [*self._begins[:at], *(piece[0] for piece in pieces), *self._begins[at + 1 :]]
        return made
