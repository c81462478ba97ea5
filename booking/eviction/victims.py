"""Who may be evicted for a booked pod (laws L2 and L6), and at what cost: the policy that is in force."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from booking.eviction.holder import Holder
from booking.eviction.maia_grants import granted_until
from booking.eviction.snapshot import EvictionSnapshot, VictimPolicy
from cluster.decide.eviction.costs import SECOND, microseconds
from cluster.decide.eviction.fates import Fates
from cluster.decide.eviction.victim_selection import Victim
from cluster.decide.ledger.holdings import PodHoldings
from cluster.decide.protection import lasting_protection, present_protection
from cluster.objects.pods import Pod


@dataclass(frozen=True, slots=True)
class LostWork:
    """What evictions destroy at one instant (``Costs``); instants and lengths in microseconds."""

    now: int
    restart: int
    """The cost of a restart for each GPU."""
    fates: Fates = field(default_factory=Fates)
    outgoing: AbstractSet[str] = frozenset()
    """Uids of pods that must leave already."""
    _of_gangs: dict[str, int] = field(default_factory=dict)
    """Key of a gang -> what it loses, computed once."""

    def victim(self, holder: Holder, devices: tuple[str, ...]) -> Victim:
        """An evictable holder of these devices, as a victim."""
        work, cost, gang, gang_cost = holder.work, 0, "", 0
        fate = self.fates.of(holder.member, outgoing=self.outgoing) if holder.member else None
        if fate is None or fate.is_replaced:
            cost = work.lost(holder.weight, self.now, self.restart) // 1000
        elif fate.gang:
            gang, gang_cost = fate.gang, self.of_gang(fate.gang)
        else:
            cost = work.unsaved.lost(holder.weight, self.now, self.restart) // 1000
        return Victim(
            uid=holder.uid,
            devices=devices,
            cost=cost,
            since=work.since(self.now),
            evictions=work.evictions,
            gang=gang,
            gang_cost=gang_cost,
        )

    def of_gang(self, key: str) -> int:
        """What a gang loses when it ends."""
        if key not in self._of_gangs:
            self._of_gangs[key] = sum(
                member.work.unsaved.lost(member.gpus, self.now, self.restart)
                for member in self.fates.gang(key)
            )
        return self._of_gangs[key]

    def at_least(self, saved: Iterable[int]) -> int:
        """GPU-microseconds that are lost at least where work was saved at these instants or before."""
        return sum(map(self.at_least_each, saved))

    def at_least_each(self, saved: int) -> int:
        """The same of one device."""
        return max(0, self.now - saved) + self.restart

    def at_least_together(self, saved: int, known: int, devices: int) -> int:
        """The same of several, by the sum of the instants that are known; less if one is yet to come."""
        return known * self.now - saved + devices * self.restart


class LeastLostWork:
    """Every pod that no booking covers and nothing protects; it costs the GPU time that is lost with it."""

    def protection(self, pod: Pod, holding: PodHoldings | None, instant: EvictionSnapshot) -> str | None:
        """Why the pod may not be evicted, None when it may.

        Args:
            pod: a bound pod.
            holding: what it holds.
            instant: the snapshot.
        """
        return present_protection(
            pod,
            is_booked=pod.metadata.uid in instant.cover,
            granted=granted_until(pod, instant.terms),
            now=instant.now,
        ) or lasting_protection(pod, holding, namespaces=instant.namespaces, home=instant.terms.namespace)

    def protected_until(self, pod: Pod, instant: EvictionSnapshot) -> datetime | None:
        """Until when MAIA has granted the pod its GPUs."""
        return granted_until(pod, instant.terms)

    def costs(self, instant: EvictionSnapshot, fates: Fates, outgoing: AbstractSet[str]) -> LostWork:
        """Lost GPU time, with a restart for each GPU."""
        restart = round(instant.terms.restart_cost_seconds * SECOND)
        return LostWork(now=microseconds(instant.now), restart=restart, fates=fates, outgoing=outgoing)


LEAST_LOST_WORK: Final[VictimPolicy] = LeastLostWork()
