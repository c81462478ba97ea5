"""How soon a part that was started again acts again, and how soon it could have at best.

A part has recovered when it no longer turns requests away: from the moment at which `/readyz` reports it the
extender answers filter and bind, the booking server books, the webhook answers, the node agent is known to
its kubelet. A controller that led when it was struck has recovered only when one has reclaimed: the
leader, in a whole pass. With a hundred booked pods waiting that is a hundred evictions, seconds of work after
the first of them. How soon is for ``make bench`` to say; here everybody only has to come back.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol, TypeVar


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """One start of a part under load."""

    part: str
    seconds: float
    """From the start of its process until it acted."""
    floor: float
    """The same of a process that was started after it: it loads the part's program and reads all pods."""

    @property
    def ratio(self) -> float:
        """In times of the floor."""
        return self.seconds / self.floor

    def __str__(self) -> str:
        return f"{self.part}: {self.seconds:.1f} s, {self.ratio:.2f} x a bare process ({self.floor:.1f} s)"


class OfPart(Protocol):
    """Something about a part."""

    @property
    def part(self) -> str:
        """Which one."""
        ...


P = TypeVar("P", bound=OfPart)


def by_part(recoveries: Iterable[P]) -> dict[str, list[P]]:
    """Of each part, in order."""
    found: dict[str, list[P]] = {}
    for one in recoveries:
        found.setdefault(one.part, []).append(one)
    return found


def slowest(recoveries: Sequence[Recovery]) -> tuple[float, float]:
    """Of the part whose median is the largest: that median, and the median of its floors."""
    parts = by_part(recoveries).values()
    medians = [(median(one.seconds for one in part), median(one.floor for one in part)) for part in parts]
    return max(medians)
