"""The dependencies of the REST API."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, Protocol

import msgspec

from booking.eviction.settings import EvictionSettings
from booking.policy.policy import FILE_VERSION
from booking.server.cluster_status import ClusterStatus
from booking.server.metrics import ServerMetrics
from booking.server.service import BookingService
from cluster.process.clock import Clock
from cluster.process.probes import Check


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy says for users who are in no group and have no exemption."""

    version: str
    """Version of the policy's contents: it differs if the meaning does."""
    file_version: int = FILE_VERSION
    """``version`` of the format of policy files."""
    zone: str
    """Name of the site's time zone, in which days are counted."""
    limits: Mapping[str, Any]
    """Name of a limit -> its value; lengths are ISO 8601."""


class Mirrored(Protocol):
    """What REST uses of ``booking.server.mirror.mirror.Mirror``."""

    def trigger(self) -> None:
        """Make the mirror begin a round, since the database has changed."""
        ...

    def written(self, change: int, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for a change; returns whether its objects are written."""
        ...


@dataclass(frozen=True, kw_only=True)
class Parts:
    """All dependencies of the API."""

    bookings: BookingService
    live: ClusterStatus
    mirror: Mirrored
    not_guaranteed_reason: Check
    """Why no change can be guaranteed now, so that none is accepted."""
    unknown_capacity: Check
    """Why the number of GPUs is not known now."""
    zone: Callable[[], tzinfo]
    """The site's zone, in which days are counted."""
    policy: Callable[[str | None], Policy]
    """The policy for all users, for one model or for all."""
    terms: EvictionSettings
    """What happens to pods whose booking is over."""
    clock: Clock
    metrics: ServerMetrics
