"""What could be booked: usable GPUs and MIG devices per model and node, and the pods that run on bookings.

Pure. The booking server computes it from its cluster cache (``booking.server.availability.cluster_capacity``)
and passes it to every decision.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Grant:
    """Devices that are unavailable until an instant: others have them, or their node is unresponsive."""

    node: str
    count: int
    until: datetime


@dataclass(frozen=True, slots=True)
class Capacity:
    """Devices per model and node. A model with only unhealthy devices is known, and has 0 devices."""

    devices: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Model (label form) -> node -> healthy devices, without those of pods that are never evicted."""
    grants: Mapping[str, tuple[Grant, ...]] = field(default_factory=dict)
    """Model -> those of these devices that are unavailable for some time."""
    pins: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Booking id -> node -> devices that pods of the booking have there."""
    resources: Mapping[str, str] = field(default_factory=dict)
    """Model -> the resource under which pods request it; that of most nodes, where they differ."""
    memories: Mapping[str, int] = field(default_factory=dict)
    """Model -> MiB that each of its devices offers to shares; without the models that cannot be shared."""
    slots: Mapping[str, int] = field(default_factory=dict)
    """Model -> how many shares each of its devices can be in; ``PER_GPU`` where it is not here."""
    unmeasured: frozenset[str] = frozenset()
    """Those of the other models that have devices of unknown memory."""
    pauses: Mapping[str, tuple[Grant, ...]] = field(default_factory=dict)
    """Model -> devices of unresponsive nodes: not guaranteed to any booking that begins before then."""

    @property
    def models(self) -> tuple[str, ...]:
        """Every model that is known, sorted."""
        return tuple(sorted(self.devices))

    def total(self, model: str) -> int:
        """How many devices of the model there are; 0 for an unknown one."""
        return sum(self.devices.get(model, {}).values())

    def largest(self, model: str) -> int:
        """The number of devices of the model on the node that has most of them."""
        return max(self.devices.get(model, {}).values(), default=0)
