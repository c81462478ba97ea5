"""Units: what starts and stops together, a pod or a gang."""

from collections.abc import Hashable
from dataclasses import dataclass

from cluster.decide.fairshare.settings import DAY, Amount, ShareSettings
from cluster.decide.fairshare.tenants import Tenant

LineKey = tuple[int, int, str]
"""A unit's place among those of its tenant: priority (negative), first created, uid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A pod, or a gang of pods."""

    uid: str
    """Of the pod; of a gang its own key."""
    tenant: Tenant
    gpus: Amount
    """Of all members together."""
    members: tuple[Amount, ...] = ()
    """What each pod of a gang needs, all of one node; empty for a single pod."""
    kind: Hashable = None
    """Units of equal kind and size fit the same nodes: one search answers for all of them."""
    priority: int = 0
    """Counts only among the units of its tenant."""
    created: int = 0
    """When it was first created, in microseconds since 1970."""

    @property
    def key(self) -> LineKey:
        """Its place among the units of its tenant."""
        return (-self.priority, self.created, self.uid)

    @property
    def parts(self) -> tuple[Amount, ...]:
        """What each of its pods needs, the largest first."""
        return tuple(sorted(self.members, reverse=True)) if self.members else (self.gpus,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A unit that holds devices, or has a hold. It may be evicted as far as anything but shares says."""

    unit: Unit
    since: int
    """When it started, in microseconds since 1970."""
    evictions: int = 0
    """How often it was evicted before."""
    taken: tuple[int, ...] = ()
    """When units of its owner were taken for shares."""
    turn_until: int = 0
    """The end of its turn, if it started in one."""

    def protected_until(self, settings: ShareSettings, now: int, *, is_on_loan: bool = False) -> int:
        """Until when it may not be taken for shares; an instant that is not after ``now``: it may.

        ``is_on_loan``: it started when another unit was due for its devices, so it has no minimum runtime.
        """
        runtime = 0 if is_on_loan else self.since + settings.runtime(self.evictions)
        today = sorted(instant for instant in self.taken if instant > now - DAY)
        too_often = (
            today[-settings.evictions_per_day] + DAY if len(today) >= settings.evictions_per_day else 0
        )
        return max(runtime, too_often, self.turn_until)
