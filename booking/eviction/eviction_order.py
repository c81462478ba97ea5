"""The order of evictions: the holders of each model in the order in which they are chosen, and why.

A booked pod that needs one device takes the first of its model; one that needs more takes the cheapest set,
which usually begins with them. Pods that share a GPU leave it together, and are one after the other.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from booking.eviction.holder import Holder
from booking.eviction.holder_cache import HolderCache, ModelHolders
from booking.eviction.sharers import freeable
from booking.eviction.snapshot import Costs, EvictionSnapshot
from booking.wording import counted, span
from cluster.decide.eviction.fates import BARE
from cluster.decide.eviction.victim_selection import Victim, price

_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class NextVictim:
    """A pod that may be evicted, in its position in the order."""

    uid: str
    model: str
    node: str
    gpus: int
    """Number of devices of the model that it holds."""
    lost: timedelta
    """GPU time that its eviction destroys, with that of the pods that leave with it."""
    evictions: int
    """How often it was evicted before."""
    free: int
    """Free devices of the model: while they suffice, no pod is evicted."""
    not_replaced: str = ""
    """Why no other pod takes up its work, so that all of it is lost: a clause; empty where one does."""
    gang: int = 1
    """Number of pods whose work is lost with it, itself included."""
    sharers: int = 0
    """Number of other pods that must leave as well, so that its devices are free: they share them."""
    has_claim: bool = False
    """Whether it has them by a claim, and so have the others."""
    is_first: bool = True
    """False for a pod that leaves with the one before it in the order."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """Pods that leave together, and the devices that are free then."""

    victim: Victim
    """The first of them, with the others as its sharers."""
    node: str
    holders: tuple[Holder, ...]


def order(
    instant: EvictionSnapshot, *, excluded: frozenset[str] = frozenset(), nodes: Iterable[str] | None = None
) -> tuple[NextVictim, ...]:
    """By model, and of each model in the order of their price.

    Args:
        instant: the snapshot.
        excluded: uids of pods that are already leaving.
        nodes: where booked pods could be placed; None: everywhere.
    """
    holder_cache = HolderCache()
    node_holders_of = holder_cache.at(instant)
    costs = instant.policy.costs(instant, holder_cache.fates(instant), excluded)
    open_nodes = None if nodes is None else frozenset(nodes)
    found: dict[str, list[_Unit]] = {}
    free: dict[str, int] = {}
    for node, node_holders in node_holders_of.items():
        if open_nodes is None or node in open_nodes:
            for model, model_holders in node_holders.by_model.items():
                free[model] = free.get(model, 0) + len(
                    set(model_holders.free) - node_holders.view.on_hold.keys()
                )
                found.setdefault(model, []).extend(_units(node, model_holders, costs, excluded))
    return tuple(
        one
        for model in sorted(found)
        for one in _of_model(model, found[model], costs, excluded, free=free[model])
    )


def _units(node: str, model_holders: ModelHolders, costs: Costs, excluded: frozenset[str]) -> Iterator[_Unit]:
    for holder in _evictable(model_holders, excluded):
        yield _Unit(costs.victim(holder, holder.devices), node, (holder,))
    shared = model_holders.shared
    if shared.of:
        units = freeable(shared, costs, away=frozenset(), outgoing=excluded, excluded=frozenset())
        for victim in units.victims:
            yield _Unit(victim, node, tuple(shared.holders[one.uid] for one in victim.all))


def _of_model(
    model: str, units: list[_Unit], costs: Costs, excluded: frozenset[str], *, free: int
) -> Iterator[NextVictim]:
    """The pods of one model, each in the first of its units."""
    seen: set[str] = set()
    for unit in sorted(units, key=lambda one: price((one.victim,))):
        is_first = True
        for victim, holder in zip(unit.victim.all, unit.holders, strict=True):
            if victim.uid in seen:
                continue
            seen.add(victim.uid)
            fate = costs.fates.of(holder.member, outgoing=excluded) if holder.member else BARE
            yield NextVictim(
                uid=victim.uid,
                model=model,
                node=unit.node,
                gpus=len(unit.victim.devices),
                lost=timedelta(microseconds=price((unit.victim,))[0]),
                evictions=victim.evictions,
                free=free,
                not_replaced=fate.why,
                gang=len(costs.fates.gang(fate.gang)) if fate.gang else 1,
                sharers=len(unit.holders) - 1,
                has_claim=len(unit.holders) > 1 and not holder.thousandths,
                is_first=is_first,
            )
            is_first = False


def _evictable(model_holders: ModelHolders, excluded: frozenset[str]) -> Iterator[Holder]:
    for holder in model_holders.holders:
        if holder.evictable and holder.devices and holder.uid not in excluded:
            yield holder


def why(one: NextVictim, *, position: int) -> str:
    """Why a pod is in its position in the order, the first being 1: a message."""
    rank = {1: "the least", 2: "the second least", 3: "the third least"}.get(
        position, f"number {position} from the least"
    )
    before = f" It was evicted {counted(one.evictions, 'time')} before." if one.evictions else ""
    whose = "its eviction"
    if one.sharers:
        what = "with the same claim" if one.has_claim else "with a share of the same GPU"
        whose = f"the eviction of it and {counted(one.sharers, 'other pod')} {what}"
    return (
        f"No booking covers it, and {whose} would lose {in_words(one.lost)} of GPU time: "
        f"{rank}.{_of_controller(one)}{before}"
    )


def _of_controller(one: NextVictim) -> str:
    """What is counted because of its controller: a sentence, or nothing."""
    if not one.not_replaced:
        return ""
    what = f"all work of {one.gang} pods" if one.gang > 1 else "all of its work"
    return f" That is {what}, saved or not, since {one.not_replaced}."


def in_words(lost: timedelta) -> str:
    """GPU time in words, to the minute."""
    return span(lost - lost % _MINUTE) if lost >= _MINUTE else "less than a minute"
