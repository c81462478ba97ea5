"""Lists a page at a time."""

from typing import Final, Generic, TypeVar

import msgspec

from booking import wording
from booking.errors import RefusedError
from booking.service.context import refused

MOST: Final = 500
"""Entries of a page."""

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some of a list."""

    entries: tuple[T, ...]
    following: str | None = None
    """Where it goes on; None: nowhere."""


def bounded(limit: int) -> int:
    """As many entries as a page has that asks for so many."""
    return max(1, min(limit, MOST))


def number_of(after: str | None) -> int | None:
    """The entry after which a page of numbered ones begins."""
    if after is None:
        return None
    if not after.isascii() or not after.isdigit() or len(after) > len(str(2**63 - 1)) - 1:
        raise no_page(after)
    return int(after)


def no_page(after: str | None) -> RefusedError:
    """Where no list goes on."""
    return refused(
        "not-a-page", f"No list goes on at {wording.quoted(after or '')}: begin with its first page."
    )
