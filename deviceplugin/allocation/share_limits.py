"""How much of a shared GPU's memory each pod may use, by the checkpoint and the pods' limits. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
from cluster.objects.quantity import QuantityError
from cluster.objects.share_request import ShareAmount, share_amounts
from cluster.objects.slots import physical
from deviceplugin.allocation.pod_devices import PodDevices

Place = tuple[str, str]
"""UUID of a device, and uid of a pod."""
_MIB: Final = 1 << 20


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
    requested = {pod.metadata.uid: _amounts(pod) for pod in pods}
    of_slots: dict[tuple[str, str], int] = {}
    for (uid, container), slots in holdings.slots_of_containers.items():
        amount = requested.get(uid, {}).get(container)
        for slot in slots if amount else ():
            if amount and (device := known.get(physical(slot))):
                of_slots[slot, uid] = max(of_slots.get((slot, uid), 0), amount.memory_on(device) * _MIB)
    limits: dict[Place, int] = {}
    for (slot, uid), memory in of_slots.items():
        place = (physical(slot), uid)
        limits[place] = limits.get(place, 0) + memory
    return {place: limit for place, limit in limits.items() if limit}


def overfull(uuids: Iterable[str], devices: Mapping[str, Device], limits: Mapping[Place, int]) -> str | None:
    """The first of these devices on which more memory is given in shares than it offers."""
    for uuid in sorted(uuids):
        offered = devices[uuid].share if uuid in devices else None
        given = sum(limit for (device, _), limit in limits.items() if device == uuid)
        if offered is not None and given > offered.memory * _MIB:
            return uuid
    return None


def _amounts(pod: Pod) -> dict[str, ShareAmount]:
    try:
        return share_amounts(pod)
    except QuantityError:
        return {}  # no such pod can be created
