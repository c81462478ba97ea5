"""The cheapest pods to evict so that a share fits on one device: exact, and no pod whose share could be left.

Cheapest as in ``victim_selection``. At most as many pods share a device as it has slots, 16 by default, so
that trying which of them leave is quick: a set that cannot be cheaper than the best one so far is not grown.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from cluster.decide.eviction.victim_selection import NO_VICTIMS, Price, Victim, price
from cluster.decide.ledger.amounts import DeviceUse, Holding
from cluster.objects.inventory import Device


@dataclass(frozen=True, slots=True)
class Sharer:
    """A pod that may be evicted, and what it has of the device: a share, or all of it."""

    victim: Victim
    part: Holding


def cheapest_sharers(
    device: Device,
    stays: DeviceUse,
    sharers: Sequence[Sharer],
    wanted: Holding,
    *,
    limit: Price | None = None,
) -> tuple[Victim, ...] | None:
    """The victims after whose eviction a share fits; empty if it fits already, None if it never does.

    Args:
        device: the device.
        stays: what pods have of it that may not be evicted.
        sharers: those that may be.
        wanted: the share, in a mode.
        limit: a price that must be undercut; None: any will do.
    """
    free = stays.room_on(device)
    if wanted.mode is None or not free.fits(wanted):
        return None
    forced = [one for one in sharers if one.part.mode != wanted.mode]
    others = [one for one in sharers if one.part.mode == wanted.mode]
    missing = (
        sum(one.part.memory for one in others) + wanted.memory - free.memory,
        sum(one.part.compute for one in others) + wanted.compute - free.compute,
        sum(one.part.slots for one in others) + wanted.slots - free.slots,
    )
    search = _Search(others, [one.victim for one in forced], limit)
    search.extend(0, missing)
    return search.best


_Missing = tuple[int, int, int]
"""MiB, percent and slots that are still to be freed; nothing where it is not above 0."""


class _Search:
    """Branch and bound: each sharer leaves or stays. Those that lose the least for each MiB are tried first.

    Whatever set frees the memory that is missing loses no less than if the next ones could leave in part.
    """

    def __init__(self, sharers: Sequence[Sharer], forced: list[Victim], limit: Price | None) -> None:
        self._order = sorted(sharers, key=_density)
        self._chosen = forced
        self._limit = limit
        self._costs = [0, *accumulate(one.victim.cost for one in self._order)]
        self._memory = [0, *accumulate(one.part.memory for one in self._order)]
        self._compute = [0, *accumulate(one.part.compute for one in self._order)]
        self._slots = [0, *accumulate(one.part.slots for one in self._order)]
        self.best: tuple[Victim, ...] | None = None

    def extend(self, position: int, missing: _Missing) -> None:
        """Try the sharers from this one on."""
        memory, compute, slots = missing
        if (
            memory > self._memory[-1] - self._memory[position]
            or compute > self._compute[-1] - self._compute[position]
            or slots > self._slots[-1] - self._slots[position]
        ):
            return
        if self._limit is not None and not self._may_be_cheaper(position, memory, self._limit):
            return
        if memory <= 0 and compute <= 0 and slots <= 0:
            found = price(tuple(self._chosen)) if self._chosen else NO_VICTIMS
            if self._limit is None or found < self._limit:
                self.best, self._limit = tuple(self._chosen), found
            return
        one = self._order[position]
        part = one.part
        self._chosen.append(one.victim)
        self.extend(position + 1, (memory - part.memory, compute - part.compute, slots - part.slots))
        self._chosen.pop()
        self.extend(position + 1, missing)

    def _may_be_cheaper(self, position: int, memory: int, limit: Price) -> bool:
        """Whether a set that begins with the chosen ones may be cheaper than the limit."""
        gangs = {one.gang: one.gang_cost for one in self._chosen if one.gang}
        least = sum(one.cost for one in self._chosen) + sum(gangs.values())
        if memory > 0:
            needed = self._memory[position] + memory
            last = bisect_left(self._memory, needed, position) - 1
            rest, part = needed - self._memory[last], self._order[last]
            least += self._costs[last] - self._costs[position] + rest * part.victim.cost // part.part.memory
        return least < limit[0] or (
            least == limit[0] and (not self._chosen or price(tuple(self._chosen)) < limit)
        )


def _density(one: Sharer) -> tuple[float, Price]:
    """GPU-microseconds that are lost for each MiB."""
    return one.victim.cost / max(1, one.part.memory), price((one.victim,))
