"""Gangs that run: what one loses counts once, however many of its pods leave, and all of them do."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cached_property
from itertools import chain

from booking.eviction.holder import Holder
from booking.eviction.holder_cache import NodeHolders
from booking.eviction.snapshot import Costs
from cluster.decide.eviction.victim_selection import Victim
from cluster.objects.gangs import Gang


class RunningGangs:
    """Those of one instant; read when they are needed."""

    def __init__(self, nodes: Mapping[str, NodeHolders], costs: Costs) -> None:
        """Args: nodes: those with pods of gangs -> who holds their devices; costs: of evictions."""
        self._nodes, self._costs = nodes, costs

    def whole(self, victim: Victim) -> Victim:
        """The victim with what its gang loses in place of what it loses alone; its sharers, too."""
        if victim.sharers:
            victim = replace(victim, sharers=tuple(map(self.whole, victim.sharers)))
        gang = self._of.get(victim.uid)
        if gang is None:
            return victim
        return replace(victim, cost=0, gang=gang.key, gang_cost=max(victim.gang_cost, self._losses[gang]))

    def mates(self, uids: AbstractSet[str]) -> list[str]:
        """Uids of the other pods of these pods' gangs that may be evicted."""
        gangs = {self._of[uid] for uid in uids if uid in self._of}
        return sorted(uid for uid, gang in self._of.items() if gang in gangs and uid not in uids)

    @cached_property
    def _of(self) -> Mapping[str, Gang]:
        """Uid of a pod that may be evicted -> its gang, of those that have one."""
        return {
            one.uid: node_holders.gangs[one.uid]
            for node_holders in self._nodes.values()
            for one in _evictable(node_holders)
            if one.uid in node_holders.gangs
        }

    @cached_property
    def _losses(self) -> Mapping[Gang, int]:
        found: dict[Gang, int] = {}
        counted = set[str]()
        for holder in chain.from_iterable(map(_evictable, self._nodes.values())):
            gang = self._of.get(holder.uid)
            if gang is not None and holder.uid not in counted:
                counted.add(holder.uid)
                alone = self._costs.victim(holder, holder.devices)
                # What a controller's pods lose together is the same number for each of them.
                found[gang] = max(found.get(gang, 0), alone.gang_cost) + alone.cost
        return found


def _evictable(node_holders: NodeHolders) -> Iterator[Holder]:
    for model_holders in node_holders.by_model.values():
        yield from (one for one in model_holders.all.values() if one.evictable)
