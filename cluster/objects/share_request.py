"""How much of each GPU a container asks for: its limits, which nobody can change once the pod exists."""

from collections.abc import Mapping
from typing import Final

import msgspec

from cluster import names
from cluster.objects.inventory import Device, SharingMode
from cluster.objects.pods import Container, Pod
from cluster.objects.quantity import parse_count

ALL: Final = 100
"""Percent."""
DEFAULT_MODE: Final[SharingMode] = "time-slice"
"""The mode of a pod that names none."""


class ShareAmount(msgspec.Struct, frozen=True):
    """What a container gets of each of its GPUs."""

    memory: int = 0
    """MiB; 0 where the percentage says it."""
    percentage: int = 0
    """Percent of a GPU's memory for shares; 0 where ``memory`` says it."""
    cores: int = 0
    """Percent of a GPU's compute; 0 if none is guaranteed."""

    def memory_on(self, device: Device) -> int:
        """MiB of this device; 0 if no amount is said."""
        if self.memory or not self.percentage:
            return self.memory
        offered = device.share.memory if device.share else device.memory
        return offered * self.percentage // ALL


def share_amounts(pod: Pod) -> dict[str, ShareAmount]:
    """Container -> what it gets of each of its GPUs, for the containers that ask for shares.

    Raises:
        QuantityError: an amount is not a whole number (the API server refuses those).
    """
    containers = (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))
    shared = (one for one in containers if names.SHARED_RESOURCE in _limits(one))
    return {one.name: share_amount(_limits(one)) for one in shared}


def share_amount(limits: Mapping[str, str | int]) -> ShareAmount:
    """The amounts in a container's limits.

    Raises:
        QuantityError: an amount is not a whole number (the API server refuses those).
    """

    def amount(resource: str) -> int:
        return parse_count(str(limits.get(resource, 0)))

    return ShareAmount(
        memory=amount(names.GPU_MEMORY),
        percentage=amount(names.GPU_MEMORY_PERCENTAGE),
        cores=amount(names.GPU_CORES),
    )


def requested_mode(pod: Pod) -> SharingMode | None:
    """The mode in which a pod shares its GPUs; None for any. Only what admission has written counts."""
    match pod.metadata.annotation(names.SHARING_MODE):
        case "mps":
            return "mps"
        case "any":
            return None
        case _:
            return DEFAULT_MODE


def _limits(container: Container) -> Mapping[str, str | int]:
    return (container.resources.limits if container.resources else None) or {}
