"""What many objects have in common is kept once: tables of equal values, bounded in size.

A cluster has tens of thousands of pods, and few kinds of them. Where a pod is decoded, what it shares with
others is replaced by an equal value that exists already. Nobody can see a difference: objects are immutable.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec.structs import force_setattr

K = TypeVar("K")
T = TypeVar("T")

MOST: Final = 2048
"""Entries of a table; it begins again when it is full. What objects still have stays with them."""

_encode: Final = msgspec.json.encode


class Once(Generic[T]):
    """Values that are equal if their JSON is."""

    def __init__(self) -> None:
        self._known: dict[bytes, T] = {}

    def __call__(self, value: T) -> T:
        """The value, or an equal one that came earlier."""
        key = _encode(value)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST:
                self._known = {}
            self._known[key] = known = value
        return known


class Parts:
    """Fields of a struct of which many have all equal."""

    def __init__(self, *fields: str, **made: Callable[[Any], Any]) -> None:
        """``made``: field -> what is made of its value, equal to it, when it is kept."""
        self._fields = (*fields, *made)
        self._made = made
        self._read = attrgetter(*self._fields)
        self._known: dict[bytes, tuple[tuple[str, Any], ...]] = {}

    def share(self, struct: msgspec.Struct) -> None:
        """Replace the fields by those of an equal struct that came earlier."""
        values = self._read(struct)
        key = _encode(values)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST:
                self._known = {}
            self._known[key] = known = tuple(
                (field, self._made[field](value) if field in self._made else value)
                for field, value in zip(self._fields, values, strict=True)
                if value is not None
            )
        for field, value in known:
            force_setattr(struct, field, value)


class ReadOnce(Generic[K, T]):
    """What is read from values that many objects share: once from each of them, by its identity."""

    def __init__(self, read: Callable[[K], T]) -> None:
        self._read = read
        self._known: dict[int, tuple[K, T]] = {}
        """With the value itself: so no other one has its identity."""

    def __call__(self, value: K) -> T:
        """What was read from the value before, or is now; raises what ``read`` raises."""
        known = self._known.get(id(value))
        if known is None:
            if len(self._known) >= MOST:
                self._known = {}
            self._known[id(value)] = known = value, self._read(value)
        return known[1]
