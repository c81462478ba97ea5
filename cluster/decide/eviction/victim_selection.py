"""The cheapest set of victims on one node: exact, minimal and the same for the same inputs (law L3).

Cheapest means least lost work, then fewest earlier evictions, then fewest victims, then the newest pods. A
set with a needless victim costs no less than the set without it and has one victim more: it is never chosen.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Final

MOST_HOLDERS: Final = 16
"""Number of victims among which ``sets`` tries every set; of more victims, the cheapest so many."""

Price = tuple[int, int, int, tuple[int, ...], tuple[str, ...]]
"""Lost GPU-microseconds, earlier evictions, number of victims, starts (newest first, negative), uids.

Smaller is better. Adding the same gang, or a pod of none, to two sets without it never changes which of them
is better: ``cheapest`` and ``sets`` rely on that. What a gang loses counts once, however many of it leave.
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
    """What its eviction destroys, in GPU-microseconds, apart from what its gang loses."""
    since: int
    """When it started, in microseconds since 1970."""
    evictions: int = 0
    """How often it was evicted before."""
    gang: str = ""
    """The key of the pods that end with it; empty for none."""
    gang_cost: int = 0
    """What these and itself lose, in GPU-microseconds."""
    sharers: tuple["Victim", ...] = ()
    """The pods that must leave with it, so that these devices are free: they share them."""
    group: str = ""
    """Of victims with the same group at most one is chosen; empty for none. They have sharers in common."""

    @property
    def all(self) -> tuple["Victim", ...]:
        """It and its sharers, each by itself: none of them has sharers."""
        return (replace(self, sharers=()), *self.sharers) if self.sharers else (self,)


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
    units = sorted(victims, key=lambda victim: victim.uid)
    victims = tuple(sorted((one for unit in units for one in unit.all), key=lambda victim: victim.uid))
    there = (*candidate.free, *candidate.leaving, *candidate.outgoing_devices)
    devices = (*there, *(uuid for unit in units for uuid in unit.devices))[:need]
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
    units: dict[str, list[Victim]] = {}
    for victim in sorted(having, key=lambda victim: victim.uid):
        units.setdefault(_unit(victim), []).append(victim)
    best: _Best = [(), *[None] * missing]
    for unit in units.values():
        is_choice = len(unit) == 1 or unit[0].group
        _extend(best, [(one,) for one in unit] if is_choice else _parts(unit, missing))
    return best[missing]


_Best = list[tuple[Victim, ...] | None]
"""Number of devices -> the cheapest victims with at least so many."""


def _unit(victim: Victim) -> str:
    if victim.group:
        return f"group {victim.group}"
    return f"gang {victim.gang}" if victim.gang else victim.uid


def _parts(gang: list[Victim], missing: int) -> list[tuple[Victim, ...]]:
    """The cheapest parts of a gang, by number of devices: among them its loss makes no difference."""
    best: _Best = [(), *[None] * missing]
    for victim in gang:
        _extend(best, [(victim,)])
    return [part for part in best if part]


def _extend(best: _Best, choices: list[tuple[Victim, ...]]) -> None:
    """Consider adding at most one of these choices to each of the sets."""
    before = list(best)
    for covered, smaller in enumerate(before[:-1]):
        if smaller is None:
            continue
        for choice in choices:
            reached = min(len(best) - 1, covered + sum(len(victim.devices) for victim in choice))
            larger, known = (*smaller, *choice), best[reached]
            if known is None or price(larger) < price(known):
                best[reached] = larger


def sets(victims: tuple[Victim, ...], missing: int) -> Iterator[tuple[Victim, ...]]:
    """All sets of victims with at least ``missing`` devices together, the cheapest first.

    For a node that the cheapest set does not make suitable: the pod may need more than devices.
    """
    order = sorted(sorted(victims, key=_price_of_one)[:MOST_HOLDERS], key=_price_alone)
    if missing <= 0:
        yield ()
    # Each set leads to two: one with the next pod added, one with the next pod in place of its last. There
    # the losses of gangs are left out: they are not added pod by pod. So a set waits in ``found`` until no
    # other can be cheaper.
    waiting: list[tuple[Price, tuple[int, ...]]] = [(_price_alone(one), (0,)) for one in order[:1]]
    found: list[tuple[Price, tuple[int, ...]]] = []
    while waiting or found:
        if found and (not waiting or found[0][0] <= waiting[0][0]):
            yield tuple(order[index] for index in heappop(found)[1])
            continue
        _, chosen = heappop(waiting)
        chosen_victims = tuple(order[index] for index in chosen)
        groups = [victim.group for victim in chosen_victims if victim.group]
        is_possible = len(groups) == len(set(groups))
        if is_possible and sum(len(victim.devices) for victim in chosen_victims) >= missing:
            heappush(found, (price(chosen_victims), chosen))
        after = chosen[-1] + 1
        if after < len(order):
            for more in ((*chosen, after), (*chosen[:-1], after)):
                heappush(waiting, (_price_alone(*(order[index] for index in more)), more))


def _price_of_one(victim: Victim) -> Price:
    return price((victim,))


def _price_alone(*victims: Victim) -> Price:
    """The price of a set without what gangs lose, which is no higher than its price."""
    return (sum(one.cost for victim in victims for one in victim.all), *price(victims)[1:])


def price(victims: tuple[Victim, ...]) -> Price:
    """The price of a set of victims."""
    if any(victim.sharers for victim in victims):
        victims = tuple(one for victim in victims for one in victim.all)
    if len(victims) == 1:
        one = victims[0]
        return (one.cost + one.gang_cost, one.evictions, 1, (-one.since,), (one.uid,))
    gangs = {victim.gang: victim.gang_cost for victim in victims if victim.gang}
    return (
        sum(victim.cost for victim in victims) + sum(gangs.values()),
        sum(victim.evictions for victim in victims),
        len(victims),
        tuple(sorted(-victim.since for victim in victims)),
        tuple(sorted(victim.uid for victim in victims)),
    )
