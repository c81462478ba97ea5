"""How much of each GPU a container asks for: its limits, which nobody can change once the pod exists."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from cluster import names
from cluster.objects.inventory import Device, SharingMode
from cluster.objects.pods import Container, Kind, Pod, container_needs
from cluster.objects.quantity import parse_count

ALL: Final = 100
"""Percent."""
SPREAD: Final = names.PLACEMENTS[1]
"""The placement of pods that want to be where the most room is."""
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


NO_AMOUNT: Final = ShareAmount()
"""That of a container which only names slots."""


class ShareNeed(msgspec.Struct, frozen=True):
    """What one container asks for: a share of the same size on each of so many different GPUs."""

    name: str
    kind: Kind
    count: int
    amount: ShareAmount


class Slot(msgspec.Struct, frozen=True):
    """One slot of a GPU. Containers that have it one after the other make it as large as the largest of them.

    Its size on a device follows from the limits of these containers, and from nothing else.
    """

    amounts: tuple[ShareAmount, ...]
    """What each container asks for that has it."""

    def memory_on(self, device: Device) -> int:
        """MiB of this device, at least 1: all that it offers where a container says no amount."""
        return max(_memory(amount, device) for amount in self.amounts)

    @property
    def cores(self) -> int:
        """Percent of the compute."""
        return max(amount.cores for amount in self.amounts)


class ShareRequest(msgspec.Struct, frozen=True):
    """The shares that a pod asks for."""

    needs: tuple[ShareNeed, ...]
    """In the order in which the kubelet serves containers."""
    mode: SharingMode | None = DEFAULT_MODE
    """None for any."""
    spreads: bool = False
    """Whether it wants the shared device with the most room, not that with the least."""

    @property
    def kind(self) -> tuple[object, ...]:
        """Equal for two pods whose containers differ by name only."""
        needs = tuple((need.kind, need.count, need.amount) for need in self.needs)
        return needs, self.mode, self.spreads

    @property
    def has_amount(self) -> bool:
        """Whether any container says how much of a GPU it wants."""
        return any(need.amount != NO_AMOUNT for need in self.needs)

    @property
    def width(self) -> int:
        """How many different GPUs it needs at least."""
        return max((need.count for need in self.needs), default=0)

    def most_on(self, device: Device, gpus: int) -> int:
        """MiB that the pod has at most of a device like this, if it has shares of so many GPUs."""
        sizes = sorted((Slot((need.amount,)).memory_on(device) for need in self.needs), reverse=True)
        slots = sum(need.count for need in self.needs)
        return sizes[0] if slots <= gpus else sum(sizes)

    @property
    def text(self) -> str:
        """The largest share in a message: ``8192 MiB and 30 % of the compute of each of 2 GPUs``."""
        amount = max((need.amount for need in self.needs), key=_size)
        memory = f"{amount.memory} MiB" if amount.memory else f"{amount.percentage or ALL} % of the memory"
        cores = f" and {amount.cores} % of the compute" if amount.cores else ""
        return f"{memory}{cores} of {f'each of {self.width} GPUs' if self.width > 1 else 'a GPU'}"


def asks_for_shares(pod: Pod) -> bool:
    """Whether a pod asks for shares of GPUs."""
    return any(need.resource == names.SHARED_RESOURCE for need in container_needs(pod))


def share_request_of(pod: Pod) -> ShareRequest | None:
    """The shares that a pod asks for; None if it asks for none.

    Raises:
        QuantityError: an amount is not a whole number (the API server refuses those).
    """
    wanted = [need for need in container_needs(pod) if need.resource == names.SHARED_RESOURCE]
    if not wanted:
        return None
    amounts = share_amounts(pod)
    return ShareRequest(
        needs=tuple(ShareNeed(need.name, need.kind, need.count, amounts[need.name]) for need in wanted),
        mode=requested_mode(pod),
        spreads=(pod.metadata.annotation(names.PLACEMENT) or "").strip() == SPREAD,
    )


def slots_of(
    needs: Iterable[ShareNeed], assignment: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[Slot, ...]]:
    """UUID -> the slots of a pod on that GPU.

    As the kubelet does it: a container takes slots that regular init containers before it have left.

    Args:
        needs: in the order in which the kubelet serves containers.
        assignment: container -> UUIDs.
    """
    found: dict[str, list[list[ShareAmount]]] = {}
    left: dict[str, list[list[ShareAmount]]] = {}
    for need in needs:
        for uuid in assignment.get(need.name, ())[: need.count]:
            again = left.get(uuid)
            slot = again.pop() if again else []
            if not slot:
                found.setdefault(uuid, []).append(slot)
            slot.append(need.amount)
            if need.kind == "init":
                left.setdefault(uuid, []).append(slot)
    return {uuid: tuple(Slot(tuple(slot)) for slot in slots) for uuid, slots in found.items()}


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


def _memory(amount: ShareAmount, device: Device) -> int:
    if amount.memory or amount.percentage:
        return max(1, amount.memory_on(device))
    return max(1, device.share.memory if device.share else device.memory)


def _size(amount: ShareAmount) -> tuple[int, int, int]:
    return amount.memory, amount.percentage, amount.cores
