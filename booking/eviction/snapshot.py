"""The parts of a reclaimer's or a booking server's snapshot that decide which pods may be evicted."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from booking.eviction_settings import EvictionSettings
from cluster.decide.ledger import NodeView
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
