"""Which numbered GPUs are out while fewer can be had than there are. Pure.

Used by the node agent beside another device plugin, and by the controller where no agent runs.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import msgspec

from cluster.objects.inventory import Device

NOT_OFFERED = "The device plugin of this node offers fewer GPUs to the kubelet than the node has"


def with_amount(
    devices: Sequence[Device],
    amount: int,
    held: AbstractSet[str],
    *,
    reasons: Sequence[str] = (),
    rather: tuple[AbstractSet[str], ...] = (),
) -> tuple[Device, ...]:
    """The devices of a resource, of which as many are healthy as can be had, and all that pods hold.

    Args:
        devices: all of them, healthy.
        amount: how many can be had, those that are held included.
        held: uuids of those that pods were assigned.
        reasons: why some are out, the first for the lowest number; ``NOT_OFFERED`` for all others.
        rather: uuids of those that are out first, if there is a choice, the most important set first; after
            them the highest numbers are.
    """
    free = [device for device in reversed(devices) if device.uuid not in held]
    out = len(devices) - max(len(devices) - len(free), amount)
    first = sorted(free, key=lambda device: [device.uuid not in some for some in rather])[: max(0, out)]
    gone = {device.uuid for device in first}
    why = iter(reasons)
    return tuple(
        msgspec.structs.replace(device, health="unhealthy", reason=next(why, NOT_OFFERED))
        if device.uuid in gone
        else device
        for device in devices
    )
