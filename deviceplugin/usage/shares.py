"""Pods that use more memory of a shared GPU than their shares. Pure.

GPUs that are shared in turns have no limit that the driver enforces: a pod is told how much it may use, and
its processes are measured.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cluster.objects.inventory import Device
from deviceplugin.allocation.share_limits import Place


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
