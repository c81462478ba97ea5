"""What could be booked: whole GPUs per model and node that can be had, and the pods that run on bookings.

Pure. The booking server computes it from what it follows of the cluster
(``booking.availability.cluster_capacity``) and hands it to every decision.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Grant:
    """Devices that cannot be had until then: others have them, or their node is unresponsive."""

    node: str
    count: int
    until: datetime


@dataclass(frozen=True, slots=True)
class Capacity:
    """Devices per model and node. A model whose devices are all unhealthy is known and has none."""

    devices: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Model (label form) -> node -> whole healthy devices, without those of pods that are never evicted."""
    grants: Mapping[str, tuple[Grant, ...]] = field(default_factory=dict)
    """Model -> devices among these that cannot be had for some time."""
    pins: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Booking id -> node -> devices that pods of that booking have there."""
    pauses: Mapping[str, tuple[Grant, ...]] = field(default_factory=dict)
    """Model -> devices of unresponsive nodes: nothing that begins before then is guaranteed of them."""

    @property
    def models(self) -> tuple[str, ...]:
        """Every model that is known, sorted."""
        return tuple(sorted(self.devices))

    def total(self, model: str) -> int:
        """How many devices of the model there are; 0 for an unknown one."""
        return sum(self.devices.get(model, {}).values())

    def largest(self, model: str) -> int:
        """How many devices of the model the node with most of them has."""
        return max(self.devices.get(model, {}).values(), default=0)
