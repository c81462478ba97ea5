"""In which order MIG devices are given where nobody has decided: packed on few GPUs or distributed, pure.

As NVIDIA's device plugin does it for devices that share a GPU: one after the other, each time from the GPU of
which the fewest (or the most) are taken already, those counted that are taken now. Where GPUs are equal the
one from which none was taken in this call comes first, so that two devices of one pod are on two GPUs.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum

from cluster.objects.inventory import Device

DevicePick = Callable[[Mapping[str, Device], Sequence[str], frozenset[str], int], Sequence[str]]
"""``(uuid -> device, free ones, got already, how many)`` -> so many of the free ones."""


class Packing(StrEnum):
    """From which GPU the next MIG device is."""

    DISTRIBUTED = "distributed"
    """From the one of which the fewest are taken."""
    PACKED = "packed"
    """From the one of which the most are taken: other GPUs stay free to be cut anew."""


def packed(
    gpu_of: Mapping[str, str], free: Sequence[str], *, chosen: Collection[str], count: int, packing: Packing
) -> list[str]:
    """So many of the free devices.

    Args:
        gpu_of: MIG device -> its GPU, of all that there are; those that are not free are taken.
        free: what may be chosen, in stable order.
        chosen: what the container gets already.
        count: how many.
        packing: from which GPU.
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
    """The choice where the free devices are MIG devices, and the other one where they are whole GPUs."""

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
