"""The nodes and their GPUs."""

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cluster.objects.inventory import Device, Sharing
from cluster.objects.slots import PER_GPU
from demo.simulation.claim_devices import claimed


@dataclass(frozen=True)
class Model:
    """A model of GPU, as GPU feature discovery names it."""

    label: str
    short: str
    """For the names of nodes."""
    memory: int
    """MiB."""
    watts: int
    """At full load."""
    links: int = 0
    """NVLinks between each two GPUs of a node."""


H200: Final = Model("NVIDIA-H200", "h200", 143771, 700, 18)
H100: Final = Model("NVIDIA-H100-80GB-HBM3", "h100", 81559, 700, 18)
A100: Final = Model("NVIDIA-A100-SXM4-80GB", "a100", 81920, 400, 12)
A6000: Final = Model("NVIDIA-RTX-A6000", "a6000", 49140, 300)
MODELS: Final = {model.label: model for model in (H200, H100, A100, A6000)}

LAB: Final = ((H200, 8), (H100, 8), (A100, 8), (A100, 4), (A6000, 4), (A6000, 4), (A6000, 2))
"""The lab's nodes: model and number of GPUs of each; a larger site is made of many such labs."""
CLAIMED: Final = 7
"""Every so many-th node is of mode ``dra``: its GPUs are given by claims."""
NOT_SHARED: Final = 928
"""MiB of a GPU that are not given in shares: the driver's own, and the agent's reserve."""
MOST: Final = 5000
"""Nodes that a site may have: Kubernetes supports no more."""


def devices_of(nodes: int) -> dict[str, tuple[Device, ...]]:
    """So many nodes, by name, each with its GPUs."""
    numbers = {model.short: itertools.count(1) for model in MODELS.values()}
    kinds = itertools.islice(itertools.cycle(LAB), nodes)
    named = ((f"{model.short}-{next(numbers[model.short]):02}", model, count) for model, count in kinds)
    boards = {name: _board(name, model, count) for name, model, count in named}
    return {
        name: board if number % CLAIMED else tuple(map(claimed, board))
        for number, (name, board) in enumerate(boards.items(), start=1)
    }


def by_claims(devices: Sequence[Device]) -> bool:
    """Whether a node gives its GPUs by claims."""
    return any(device.claimed_as for device in devices)


def _board(node: str, model: Model, count: int) -> tuple[Device, ...]:
    uuids = [_uuid(node, index) for index in range(count)]
    return tuple(
        Device(
            uuid=uuid,
            index=index,
            model=model.label,
            memory=model.memory,
            numa=index * 2 // count,
            links=_links(uuid, uuids, model.links),
            share=Sharing(slots=PER_GPU, memory=model.memory - NOT_SHARED),
        )
        for index, uuid in enumerate(uuids)
    )


def _links(uuid: str, uuids: list[str], links: int) -> dict[str, int] | None:
    return {other: links for other in uuids if other != uuid} if links else None


def _uuid(node: str, index: int) -> str:
    """Like a driver's, and the same at every start."""
    digits = hashlib.sha256(f"{node}/{index}".encode()).hexdigest()
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"
