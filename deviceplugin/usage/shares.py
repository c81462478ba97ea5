"""How much of a shared GPU's memory each pod may use, and which pods use more. Pure.

GPUs that are shared in turns have no limit that the driver enforces: a pod is told how much it may use, and
its processes are measured.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from cluster import names
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
from cluster.objects.quantity import QuantityError
from cluster.objects.share_request import ShareAmount, share_amounts
from cluster.objects.slots import is_slot, physical
from deviceplugin.allocation.pod_devices import PodDevices

Place = tuple[str, str]
"""UUID of a device, and uid of a pod."""
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Overuse:
    """A pod that uses more memory of a GPU than its share. Memory is in bytes."""

    device: str
    index: int
    uid: str
    used: int
    limit: int

    @property
    def place(self) -> Place:
        """Identifies it for as long as it lasts."""
        return self.device, self.uid


def share_limits(
    devices: Iterable[Device], holdings: PodDevices | None, pods: Iterable[Pod]
) -> dict[Place, int]:
    """(Device, pod) -> bytes that the pod may use there, for pods with shares.

    The shares of its containers add up; of an init container and the one that takes over its slot, the larger
    counts. A pod that has not said how much it uses has no limit here.
    """
    if holdings is None:
        return {}
    known = {device.uuid: device for device in devices}
    asked = {pod.metadata.uid: _amounts(pod) for pod in pods}
    of_slots: dict[tuple[str, str], int] = {}
    shared = holdings.containers_of(names.SHARED_RESOURCE)
    for (uid, container), slots in shared.items():
        amount = asked.get(uid, {}).get(container)
        for slot in slots if amount else ():
            if amount and is_slot(slot) and (device := known.get(physical(slot))):
                of_slots[slot, uid] = max(of_slots.get((slot, uid), 0), amount.memory_on(device) * _MIB)
    limits: dict[Place, int] = {}
    for (slot, uid), memory in of_slots.items():
        place = (physical(slot), uid)
        limits[place] = limits.get(place, 0) + memory
    return {place: limit for place, limit in limits.items() if limit}


def overuse(
    devices: Iterable[Device], limits: Mapping[Place, int], used: Mapping[Place, int]
) -> tuple[Overuse, ...]:
    """The pods that use more than their shares, those that use most too much first."""
    index = {device.uuid: device.index for device in devices}
    found = [
        Overuse(uuid, index.get(uuid, -1), uid, used[uuid, uid], limit)
        for (uuid, uid), limit in limits.items()
        if used.get((uuid, uid), 0) > limit
    ]
    return tuple(sorted(found, key=lambda one: (one.limit - one.used, one.place)))


def _amounts(pod: Pod) -> dict[str, ShareAmount]:
    try:
        return share_amounts(pod)
    except QuantityError:
        return {}  # no such pod can be created
