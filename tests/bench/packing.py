"""Fractional and whole requests for GPUs, and ways to pack the fractions: a rule, and bounds. Pure."""

import csv
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Final

PODS: Final = "openb_pod_list_default.csv"
NODES: Final = "openb_node_list_gpu_node.csv"
GPU: Final = 1000
"""Thousandths of a GPU, in which these traces count."""
_SIZES: Final = (810, 470, 320, 650, 230, 460, 590, 160, 550, 220)
"""Of the small sample."""


@dataclass(frozen=True)
class Trace:
    """Pods in the order of their creation, and the nodes for them. Pods do not end."""

    nodes: tuple[int, ...]
    """GPUs of each node."""
    shares: tuple[int, ...]
    """Thousandths of one GPU that each fractional pod asks for."""
    whole: tuple[int, ...]
    """GPUs that each other pod asks for."""


def read(folder: Path) -> Trace:
    """The pods and nodes of openb, a public trace of Alibaba's clusters.

    Raises:
        OSError: the folder does not have the two files.
    """
    with (folder / NODES).open(newline="") as file:
        nodes = tuple(int(row["gpu"]) for row in csv.DictReader(file))
    with (folder / PODS).open(newline="") as file:
        pods = sorted(csv.DictReader(file), key=lambda row: int(row["creation_time"]))
    requested = [(int(row["num_gpu"]), int(row["gpu_milli"])) for row in pods]
    return Trace(
        nodes,
        shares=tuple(milli for count, milli in requested if count == 1 and milli < GPU),
        whole=tuple(count for count, milli in requested if count and milli == GPU),
    )


def sample() -> Trace:
    """A small synthetic trace with sizes as they are in openb, the same one each time."""
    shares = tuple(_SIZES[min(7 * number % 23, 37 * number % 29) % len(_SIZES)] for number in range(300))
    return Trace(nodes=(8,) * 40, shares=shares, whole=(1, 1, 8, 2, 1, 1, 4, 1) * 16)


def best_fit(sizes: Iterable[int]) -> int:
    """GPUs that gpushare's rule opens if all GPUs are on one node: each pod gets the least room that fits."""
    rooms: list[int] = []
    opened = 0
    for size in sizes:
        place = bisect_left(rooms, size)
        is_new = place == len(rooms)
        room = GPU if is_new else rooms.pop(place)
        opened += is_new
        insort(rooms, room - size)
    return opened


def best_packing(sizes: Sequence[int]) -> int:
    """GPUs of the best packing that is found by rules that know all pods in advance."""
    return min(best_fit(sorted(sizes, reverse=True)), _fullest(sizes))


def bound(sizes: Sequence[int]) -> int:
    """GPUs below which no packing exists.

    Source: the bound L2 of Martello and Toth (1990): large pods have a GPU each, and of the others only so
    much fits beside them.
    """
    found = ceil(sum(sizes) / GPU)
    for least in {0, *(size for size in sizes if size <= GPU // 2)}:
        alone = sum(size > GPU - least for size in sizes)
        large = [size for size in sizes if GPU // 2 < size <= GPU - least]
        small = sum(size for size in sizes if least <= size <= GPU // 2)
        beside = len(large) * GPU - sum(large)
        found = max(found, alone + len(large) + max(0, ceil((small - beside) / GPU)))
    return found


def whole_fitting(free: Sequence[int], wanted: Iterable[int]) -> int:
    """How many whole requests fit, one after the other, each on the node with the fewest free GPUs.

    Args:
        free: free GPUs of each node.
        wanted: GPUs that each request asks for.
    """
    nodes, fitting = Counter(free), 0
    for count in wanted:
        level = min((each for each, number in nodes.items() if number and each >= count), default=None)
        if level is not None:
            nodes[level] -= 1
            nodes[level - count] += 1
            fitting += 1
    return fitting


def _fullest(sizes: Sequence[int]) -> int:
    """GPUs if each is filled as far as possible beside the largest pod that is left."""
    left, opened = Counter(sizes), 0
    while left:
        opened += 1
        largest = max(left)
        left[largest] -= 1
        sums: dict[int, tuple[int, ...]] = {0: ()}
        for size in sorted(left, reverse=True):
            for total, beside in list(sums.items()):
                for count in range(1, min(left[size], (GPU - largest - total) // size) + 1):
                    filled = beside + (size,) * count
                    known = sums.get(total + count * size)
                    if known is None or len(filled) < len(known):
                        sums[total + count * size] = filled
        left -= Counter(sums[max(sums)])
        left = +left
    return opened
