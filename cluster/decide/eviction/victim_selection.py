"""The cheapest set of victims on one node: exact, minimal and the same for the same inputs (law L3).

Cheapest means least lost work, then fewest earlier evictions, then fewest victims, then the newest pods. A
set with a needless victim costs no less than the set without it and has one victim more: it is never chosen.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

MOST_HOLDERS: Final = 16
"""Number of victims among which ``sets`` tries every set; of more victims, the cheapest so many."""

Price = tuple[int, int, int, tuple[int, ...], tuple[str, ...]]
"""Lost GPU-microseconds, earlier evictions, number of victims, starts (newest first, negative), uids.

Smaller is better. Adding the same pod to two sets never changes which of them is better: ``cheapest`` and
``sets`` rely on that.
"""
Rank = tuple[Price, bool, int, str]
"""Price, whether it waits, number of busy devices, node name. The smallest rank of all nodes is the best."""
NO_VICTIMS: Final[Price] = (0, 0, 0, (), ())


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that may be evicted."""

    uid: str
    devices: tuple[str, ...]
    """The devices of it that the booked pod could use."""
    cost: int
    """What its eviction destroys, in GPU-microseconds."""
    since: int
    """When it started, in microseconds since 1970."""
    evictions: int = 0
    """How often it was evicted before."""


@dataclass(frozen=True, slots=True)
class NodeCandidate:
    """What one node has of the model that is needed: UUIDs, none of them twice."""

    node: str
    free: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    """Held by terminating pods."""
    outgoing_devices: tuple[str, ...] = ()
    """Held by pods that will be evicted for another reason: the devices can be held once those terminate."""
    victims: tuple[Victim, ...] = ()
    outgoing_pods: frozenset[str] = frozenset()
    """Uids of the pods that will be evicted for another reason."""


@dataclass(frozen=True, slots=True)
class VictimSelection:
    """Devices for one pod on one node."""

    node: str
    devices: tuple[str, ...]
    victims: tuple[Victim, ...]
    waits: bool
    """It needs devices in ``outgoing_devices``, which can be held once their holder is terminating."""
    busy: int
    """How many of the devices are still held."""
    rank: Rank


def select_victims(candidate: NodeCandidate, need: int) -> VictimSelection | None:
    """Exactly ``need`` devices of the node: free ones first, victims' last; None when it has too few."""
    without = len(candidate.free) + len(candidate.leaving) + len(candidate.outgoing_devices)
    victims = cheapest(candidate.victims, max(0, need - without))
    return None if victims is None else taking(candidate, need, victims)


def taking(
    candidate: NodeCandidate, need: int, victims: tuple[Victim, ...], *, waits: bool = False
) -> VictimSelection:
    """The selection of these victims, which must be enough. ``waits``: for the room of ``outgoing_pods``."""
    victims = tuple(sorted(victims, key=lambda victim: victim.uid))
    there = (*candidate.free, *candidate.leaving, *candidate.outgoing_devices)
    devices = (*there, *(uuid for victim in victims for uuid in victim.devices))[:need]
    waits = waits or not set(devices).isdisjoint(candidate.outgoing_devices)
    busy = len(set(devices) - set(candidate.free))
    rank = (price(victims), waits, busy, candidate.node)
    return VictimSelection(
        node=candidate.node, devices=devices, victims=victims, waits=waits, busy=busy, rank=rank
    )


def cheapest(victims: tuple[Victim, ...], missing: int) -> tuple[Victim, ...] | None:
    """The cheapest victims with at least ``missing`` devices together; None if all have too few."""
    having = [victim for victim in victims if victim.devices]
    if missing == 1:
        one = min(having, key=lambda victim: price((victim,)), default=None)
        return None if one is None else (one,)
    best: list[tuple[Victim, ...] | None] = [(), *[None] * missing]
    for victim in sorted(having, key=lambda victim: victim.uid):
        # From the top: otherwise a victim would be counted twice.
        for covered in range(missing - 1, -1, -1):
            smaller = best[covered]
            if smaller is None:
                continue
            reached = min(missing, covered + len(victim.devices))
            larger, known = (*smaller, victim), best[reached]
            if known is None or price(larger) < price(known):
                best[reached] = larger
    return best[missing]


def sets(victims: tuple[Victim, ...], missing: int) -> Iterator[tuple[Victim, ...]]:
    """All sets of victims with at least ``missing`` devices together, the cheapest first.

    For a node that the cheapest set does not make suitable: the pod may need more than devices.
    """
    order = sorted(victims, key=lambda victim: price((victim,)))[:MOST_HOLDERS]
    if missing <= 0:
        yield ()
    # Each set leads to two: one with the next pod added, one with the next pod in place of its last.
    waiting: list[tuple[Price, tuple[int, ...]]] = [(price((one,)), (0,)) for one in order[:1]]
    while waiting:
        _, chosen = heappop(waiting)
        found = tuple(order[index] for index in chosen)
        if sum(len(victim.devices) for victim in found) >= missing:
            yield found
        after = chosen[-1] + 1
        if after < len(order):
            for more in ((*chosen, after), (*chosen[:-1], after)):
                heappush(waiting, (price(tuple(order[index] for index in more)), more))


def price(victims: tuple[Victim, ...]) -> Price:
    """The price of a set of victims."""
    if len(victims) == 1:
        one = victims[0]
        return (one.cost, one.evictions, 1, (-one.since,), (one.uid,))
    return (
        sum(victim.cost for victim in victims),
        sum(victim.evictions for victim in victims),
        len(victims),
        tuple(sorted(-victim.since for victim in victims)),
        tuple(sorted(victim.uid for victim in victims)),
    )
