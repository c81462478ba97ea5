"""Which variants are played: all of them in a soak, a few each time."""

from collections.abc import Iterable
from typing import TypeVar

from hypothesis import settings

V = TypeVar("V")


def some(few: Iterable[V], *, of: Iterable[V]) -> list[V]:
    """A few of many; all in a soak (``make soak``)."""
    return list(of) if settings.get_current_profile_name() == "soak" else list(few)


def every(step: int, of: Iterable[V]) -> list[V]:
    """Every second or third of many; all in a soak."""
    found = list(of)
    return some(found[::step], of=found)
