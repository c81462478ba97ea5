"""How much of a shared GPU each pod may use, by the checkpoint and the pods' limits. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
from cluster.objects.quantity import QuantityError
from cluster.objects.share_request import ALL, ShareAmount, Slot, share_amounts
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
    limits: dict[Place, int] = {}
    for (slot_id, uid), slot in _slots(holdings, pods).items():
        if device := known.get(physical(slot_id)):
            memory = max(amount.memory_on(device) for amount in slot.amounts)
            limits[device.uuid, uid] = limits.get((device.uuid, uid), 0) + memory * _MIB
    return {place: limit for place, limit in limits.items() if limit}


def overfull(
    uuids: Iterable[str], devices: Mapping[str, Device], holdings: PodDevices, pods: Iterable[Pod]
) -> str | None:
    """The first of these devices of which more is given in shares than it offers.

    A pod that has not said how much it uses has all the memory.
    """
    slots = _slots(holdings, pods)
    for uuid in sorted(uuids):
        device = devices.get(uuid)
        here = [slot for (slot_id, _), slot in slots.items() if physical(slot_id) == uuid]
        if device and device.share and here:
            memory = sum(slot.memory_on(device) for slot in here)
            if memory > device.share.memory or sum(slot.cores for slot in here) > ALL:
                return uuid
    return None


def _slots(holdings: PodDevices, pods: Iterable[Pod]) -> dict[tuple[str, str], Slot]:
    """(Id of a slot, uid of the pod that has it) -> what the pod's containers ask for that have it."""
    requested = {pod.metadata.uid: _amounts(pod) for pod in pods}
    found: dict[tuple[str, str], Slot] = {}
    for (uid, container), ids in holdings.slots_of_containers.items():
        if amount := requested.get(uid, {}).get(container):
            for slot_id in ids:
                before = found[slot_id, uid].amounts if (slot_id, uid) in found else ()
                found[slot_id, uid] = Slot((*before, amount))
    return found


def _amounts(pod: Pod) -> dict[str, ShareAmount]:
    try:
        return share_amounts(pod)
    except QuantityError:
        return {}  # no such pod can be created
