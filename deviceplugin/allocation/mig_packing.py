"""The order of MIG devices without an assignment: packed on few GPUs, or distributed. Pure.

Devices are chosen as NVIDIA's device plugin does it for devices that share a GPU: one after the other, each
from the GPU with the fewest (or the most) devices in use, counting those chosen in this call. Of equal GPUs,
one without a device chosen in this call comes first, so that two devices of one pod come from two GPUs.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum

from cluster.objects.inventory import Device

DevicePick = Callable[[Mapping[str, Device], Sequence[str], frozenset[str], int], Sequence[str]]
"""``(uuid -> device, free ids, ids chosen already, count)`` -> ``count`` of the free ids."""


class Packing(StrEnum):
    """Which GPU the next MIG device comes from."""

    DISTRIBUTED = "distributed"
    """The GPU with the fewest devices in use."""
    PACKED = "packed"
    """The GPU with the most devices in use: other GPUs stay free to be repartitioned."""


def packed(
    gpu_of: Mapping[str, str], free: Sequence[str], *, chosen: Collection[str], count: int, packing: Packing
) -> list[str]:
    """``count`` of the free devices.

    Args:
        gpu_of: MIG device -> its GPU, for all that exist; those that are not free are in use.
        free: ids to choose from, in stable order.
        chosen: ids that the container gets already.
        count: number of devices to choose.
        packing: which GPU is preferred.
    """
    taken = Counter(gpu for device, gpu in gpu_of.items() if device not in free)
    now = Counter(gpu_of.get(device, device) for device in chosen)
    left, got = list(free), list[str]()

    def rank(device: str) -> tuple[int, int]:
        gpu = gpu_of.get(device, device)
        return (-taken[gpu] if packing is Packing.PACKED else taken[gpu], now[gpu])

    for _ in range(min(count, len(left))):
        best = min(left, key=rank)
        left.remove(best)
        got.append(best)
        taken[gpu_of.get(best, best)] += 1
        now[gpu_of.get(best, best)] += 1
    return got


def by_parts(packing: Packing, otherwise: DevicePick) -> DevicePick:
    """A pick that packs MIG devices and leaves whole GPUs to ``otherwise``."""

    def pick(
        known: Mapping[str, Device], free: Sequence[str], chosen: frozenset[str], count: int
    ) -> Sequence[str]:
        resources = {known[uuid].profile for uuid in free if uuid in known}
        gpu_of = {
            uuid: device.parent
            for uuid, device in known.items()
            if device.parent is not None and device.profile in resources
        }
        if gpu_of.keys().isdisjoint(free):
            return otherwise(known, free, chosen, count)
        return packed(gpu_of, free, chosen=chosen, count=count, packing=packing)

    return pick
