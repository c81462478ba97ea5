"""The parts of a reclaimer's or a booking server's snapshot that decide which pods may be evicted.

Who may be, and at what cost, is a policy that the snapshot carries (ADR 79).
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Protocol

from booking.eviction.holder import Holder
from booking.eviction.settings import EvictionSettings
from cluster.cache.recent_changes import RecentChanges
from cluster.decide.eviction.fates import Fates
from cluster.decide.eviction.victim_selection import Victim
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.holdings import PodHoldings
from cluster.decide.ledger.liveness import AgentState
from cluster.objects.bookings import Booking
from cluster.objects.jobs import Job
from cluster.objects.namespaces import Namespace
from cluster.objects.pods import Pod


class Nodes(Protocol):
    """The nodes of a snapshot."""

    @property
    def views(self) -> Mapping[str, NodeView]:
        """Name -> its devices, and who holds them."""
        ...

    def __getitem__(self, name: str, /) -> tuple[NodeView, AgentState]:
        """The devices of a node, and the state of its agent."""
        ...


class EvictionSnapshot(Protocol):
    """Inputs of decisions about evictions: values of one instant."""

    @property
    def now(self) -> datetime:
        """The instant of the snapshot, aware UTC."""
        ...

    @property
    def pods(self) -> Mapping[str, Pod]:
        """Uid -> living pod that requests GPUs, terminating ones too."""
        ...

    @property
    def node_snapshots(self) -> Nodes:
        """The nodes at that instant."""
        ...

    @property
    def recent(self) -> RecentChanges | None:
        """Which nodes have changed of late; None if that is not known."""
        ...

    @property
    def cover(self) -> Mapping[str, Booking]:
        """Pod uid -> the booking that covers it now."""
        ...

    @property
    def namespaces(self) -> Mapping[str, Namespace]:
        """Name -> Namespace."""
        ...

    @property
    def jobs(self) -> Mapping[str, Job]:
        """``namespace/name`` -> Job."""
        ...

    @property
    def terms(self) -> EvictionSettings:
        """The administrator's settings."""
        ...

    @property
    def policy(self) -> "VictimPolicy":
        """Who may be evicted, and at what cost."""
        ...


class Costs(Protocol):
    """What evictions destroy at one instant."""

    @property
    def fates(self) -> Fates:
        """What becomes of the pods' work."""
        ...

    def victim(self, holder: Holder, devices: tuple[str, ...]) -> Victim:
        """An evictable holder of these devices, as a victim."""
        ...

    def at_least(self, saved: Iterable[int]) -> int:
        """A lower bound of what it costs to free devices.

        Args:
            saved: for each of them, an instant after which its holder's work was not saved, in microseconds
                since 1970.
        """
        ...

    def at_least_each(self, saved: int) -> int:
        """The same of one device."""
        ...

    def at_least_together(self, saved: int, known: int, devices: int) -> int:
        """Not more than ``at_least`` of so many devices.

        Args:
            saved: the sum of the instants that are known.
            known: their number; of the other devices work may have been saved just now.
            devices: the number of all.
        """
        ...


class VictimPolicy(Protocol):
    """Who may be evicted for a booked pod, and what that costs."""

    def protection(self, pod: Pod, holding: PodHoldings | None, instant: EvictionSnapshot) -> str | None:
        """Why a bound pod with this holding may not be evicted, as a clause; None when it may."""
        ...

    def protected_until(self, pod: Pod, instant: EvictionSnapshot) -> datetime | None:
        """When a protection ends by time alone; None if none does."""
        ...

    def costs(self, instant: EvictionSnapshot, fates: Fates, outgoing: AbstractSet[str]) -> Costs:
        """The costs at this instant; ``outgoing``: uids of pods that must leave already."""
        ...
