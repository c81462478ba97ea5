"""Stands in for threads that ask something aside: the other order, in the one thread that tests have."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def afterwards(work: Callable[[], T], /) -> Callable[[], T]:
    """Do it when the answer is called for: the slowest thread. ``in_turn`` is the quickest."""
    return work
