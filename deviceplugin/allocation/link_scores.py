"""Scores for the link between two GPUs of a node. Pure.

The numbers are those of NVIDIA's allocator: 100 for every NVLink, and 10 to 60 for the distance on the PCI
bus. If the driver does not report that distance, the NUMA nodes decide.
"""

from collections.abc import Iterable, Mapping
from itertools import permutations
from typing import Final

from cluster.objects.inventory import Device, nvlinks

Scores = Mapping[str, Mapping[str, int]]
"""GPU -> other GPU -> score of their link: the same in both directions, missing without a link."""

NVLINK: Final = 100
"""Score for each NVLink between two GPUs."""
NEAREST: Final = 60
"""Score of two GPUs on one board. From it NVML's topology level of the two GPUs is subtracted: 10 for one PCI
switch, 20 for several, 30 for a host bridge, 40 for one NUMA node, 50 for the link between processors."""
SAME_NODE: Final = 20
OTHER_NODE: Final = 10


def scores(devices: Iterable[Device], levels: Mapping[str, Mapping[str, int]]) -> Scores:
    """The scores of all pairs of these GPUs.

    Args:
        devices: with their NVLinks and NUMA nodes.
        levels: GPU -> other GPU -> NVML's topology level of the path between them on the PCI bus, where it is
            known.
    """
    found: dict[str, dict[str, int]] = {}
    for one, other in permutations(devices, 2):
        score = NVLINK * nvlinks(one, other) + _on_the_bus(one, other, levels)
        found.setdefault(one.uuid, {})[other.uuid] = score
    return found


def _on_the_bus(one: Device, other: Device, levels: Mapping[str, Mapping[str, int]]) -> int:
    known = [
        level
        for level in (levels.get(one.uuid, {}).get(other.uuid), levels.get(other.uuid, {}).get(one.uuid))
        if level is not None
    ]
    if known:
        return NEAREST - min(known)
    return SAME_NODE if one.numa is not None and one.numa == other.numa else OTHER_NODE
