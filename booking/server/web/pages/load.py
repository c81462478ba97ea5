"""The booked share of some devices over time, by owner: steps of load. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Literal, NamedTuple

Kind = Literal["mine", "others", "blocked"]
KINDS: tuple[Kind, ...] = ("mine", "others", "blocked")


class Piece(NamedTuple):
    """A number of devices in use, or in maintenance, in ``[start, end)``."""

    kind: Kind
    gpus: int
    start: datetime
    end: datetime


class Step(NamedTuple):
    """A span in which nothing changes."""

    start: datetime
    end: datetime
    mine: int
    others: int
    blocked: int
    """Devices in maintenance."""
    capacity: int
    """Existing devices, including those in maintenance."""
    used: int
    """All devices that are not free; more than exist, if some have disappeared."""
    free: int
    """Devices that can be booked."""


def steps(pieces: Iterable[Piece], start: datetime, end: datetime, *, capacity: int) -> tuple[Step, ...]:
    """The load in ``[start, end)``: steps without gaps."""
    changes: dict[Kind, dict[datetime, int]] = {kind: {} for kind in KINDS}
    for kind, gpus, begin, over in pieces:
        if over > start and begin < end and begin < over:
            first, last, change = max(begin, start), min(over, end), changes[kind]
            change[first] = change.get(first, 0) + gpus
            change[last] = change.get(last, 0) - gpus
    return tuple(_summed(changes, sorted({start, end}.union(*changes.values())), capacity))


def _summed(
    changes: Mapping[Kind, Mapping[datetime, int]], moments: Sequence[datetime], capacity: int
) -> Iterator[Step]:
    changed = [changes[kind] for kind in KINDS]
    mine = others = blocked = 0
    for moment, following in pairwise(moments):
        more = [change.get(moment, 0) for change in changed]
        mine, others, blocked = mine + more[0], others + more[1], blocked + more[2]
        # Maintenance may include devices that are already unavailable.
        away = min(blocked, capacity)
        used = mine + others + away
        yield Step(moment, following, mine, others, away, capacity, used, max(0, capacity - used))


@dataclass(frozen=True, slots=True)
class Day:
    """What is free and in use on one day."""

    start: datetime
    """Its first instant with the most free devices, but not before now."""
    free: int
    """Devices that are free all day long, from now on if it is today."""
    most: int
    """Devices that are free at ``start``."""
    mine: int
    others: int
    blocked: int
    over: int
    """Devices booked beyond the existing ones. Like the three above, the maximum over the day."""


def days(found: Sequence[Step], midnights: Sequence[datetime], now: datetime) -> tuple[Day, ...]:
    """The days of a row. If all of a day is equally free, its beginning is shown."""
    shown: list[Day] = []
    first = 0
    for begin, end in pairwise(midnights):
        while found[first].end <= begin:
            first += 1
        last = first
        while last + 1 < len(found) and found[last + 1].start < end:
            last += 1
        shown.append(_day(found[first : last + 1], max(begin, min(now, end)), begin))
    return tuple(shown)


def _day(inside: Sequence[Step], since: datetime, begin: datetime) -> Day:
    ahead = [step for step in inside if step.end > since] or inside[-1:]
    _, _, mine, others, blocked, capacity, used, free = zip(*ahead, strict=True)
    most = max(free)
    return Day(
        start=max(ahead[free.index(most)].start, since, begin),
        free=min(free),
        most=most,
        mine=max(mine),
        others=max(others),
        blocked=max(blocked),
        over=max(0, max(used) - capacity[0]),
    )
