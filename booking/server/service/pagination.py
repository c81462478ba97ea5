"""Lists a page at a time."""

import re
from bisect import bisect_right
from collections.abc import Iterable
from datetime import datetime
from math import floor
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from booking import wording
from booking.server.errors import RefusedError
from booking.server.service.context import refused

MOST: Final = 500
"""Entries of a page at most."""

_MARK: Final = re.compile(r"(-?[0-9]{1,18})[.]([!-~]+)", re.ASCII)
"""Start, in seconds since 1970, and id of the last entry of a page."""

T = TypeVar("T")


class Starting(Protocol):
    """An entry of a list that is sorted by start, then id."""

    @property
    def start(self) -> datetime:
        """When it starts, aware UTC."""
        ...

    @property
    def id(self) -> str:
        """Unique id within the list."""
        ...


StartingT = TypeVar("StartingT", bound=Starting)


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list."""

    entries: tuple[T, ...]
    following: str | None = None
    """Where the next page begins; None: this is the last one."""


def bounded(limit: int) -> int:
    """Number of entries of a page for a requested ``limit``."""
    return max(1, min(limit, MOST))


def number_of(after: str | None) -> int | None:
    """The number after which a page of numbered entries begins."""
    if after is None:
        return None
    if not after.isascii() or not after.isdigit() or len(after) > len(str(2**63 - 1)) - 1:
        raise no_page(after)
    return int(after)


def by_start(found: Iterable[StartingT], *, after: str | None, limit: int) -> Page[StartingT]:
    """The page of ``found`` that follows ``after``, by start and id.

    Args:
        found: all entries, in any order.
        after: ``Page.following`` of the page before; the entry that it names may be gone by now.
        limit: number of entries at most.

    Raises:
        RefusedError: an ``after`` that no page has ever returned.
    """
    # Sort by what a mark contains: otherwise entries that begin in the same second would be repeated or
    # skipped.
    ordered = sorted(found, key=_key)
    begin = 0 if after is None else bisect_right(ordered, _key_of(after), key=_key)
    page = tuple(ordered[begin : begin + bounded(limit)])
    is_all = begin + len(page) == len(ordered)
    return Page(page, None if is_all else "{}.{}".format(*_key(page[-1])))


def _key(entry: Starting) -> tuple[int, str]:
    return floor(entry.start.timestamp()), entry.id


def _key_of(after: str) -> tuple[int, str]:
    mark = _MARK.fullmatch(after)
    if mark is None:
        raise no_page(after)
    return int(mark[1]), mark[2]


def no_page(after: str | None) -> RefusedError:
    """The error for a mark that does not continue any list."""
    return refused(
        "not-a-page", f"No list goes on at {wording.quoted(after or '')}: begin with its first page."
    )
