"""Pods that use more memory of a shared GPU than their shares. Pure.

Pods that have a share together, by one claim, are compared with it together.

GPUs that are shared in turns have no limit that the driver enforces: a pod is told how much it may use, and
its processes are measured.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from cluster.objects.inventory import Device
from deviceplugin.allocation.share_limits import Place

NOBODY: Final[Mapping[Place, frozenset[str]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Overuse:
    """A pod that uses more memory of a GPU than its share. Memory is in bytes."""

    device: str
    index: int
    uid: str
    used: int
    """Of the pods that have the share with it, too."""
    limit: int
    together: frozenset[str] = frozenset()
    """Uids of these pods, its own among them; empty where it has the share alone."""

    @property
    def is_first(self) -> bool:
        """Whether it stands for all that have the share together."""
        return not self.together or self.uid == min(self.together)

    @property
    def place(self) -> Place:
        """Identifies it for as long as it lasts."""
        return self.device, self.uid


def overuse(
    devices: Iterable[Device],
    limits: Mapping[Place, int],
    used: Mapping[Place, int],
    together: Mapping[Place, frozenset[str]] = NOBODY,
) -> tuple[Overuse, ...]:
    """The pods that use more than their shares, those that use most too much first.

    Args:
        devices: of this node.
        limits: (device, pod) -> bytes of the pod's share.
        used: (device, pod) -> bytes that its processes use.
        together: (device, pod) -> uids of all pods that have the share, where they are several.
    """
    index = {device.uuid: device.index for device in devices}
    found: list[Overuse] = []
    for (uuid, uid), limit in limits.items():
        others = together.get((uuid, uid), frozenset())
        total = sum(used.get((uuid, one), 0) for one in others or (uid,))
        if total > limit:
            found.append(Overuse(uuid, index.get(uuid, -1), uid, total, limit, others))
    return tuple(sorted(found, key=lambda one: (one.limit - one.used, one.place)))
