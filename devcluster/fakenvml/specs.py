"""What a simulated GPU is: profiles of real cards, MIG devices, and the GPUs of the development cluster."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

MIB: Final = 1 << 20
MEMORY_SLICES: Final = 8
"""Slices of memory of a card that can be cut."""
COMPUTE_SLICES: Final = 7
ALL_EVENT_TYPES: Final = 0xFF9F
"""The event types that an H200 with driver 580 supports."""
WHOLE_GPU: Final = 0xFFFFFFFF
"""Stands for "no instance" where NVML names a GPU instance or a compute instance."""

_NAMESPACE = uuid.UUID("6a1cf2a5-0f0c-5c0e-9a53-0d6a2d1f2f10")


@dataclass(frozen=True, kw_only=True)
class MigProfile:
    """A MIG profile of one card: what a GPU instance of it holds."""

    id: int
    memory_mib: int
    slices: int
    processors: int
    copy_engines: int
    decoders: int


@dataclass(frozen=True, kw_only=True)
class GpuProfile:
    """What all cards of one model have in common. Memory in MiB, ``reserved`` in bytes."""

    name: str
    memory_mib: int
    reserved: int
    compute: tuple[int, int]
    brand: int
    architecture: int
    pci_device: int
    pci_subsystem: int
    mig: Mapping[str, MigProfile] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MigSpec:
    """One MIG device of a GPU: an instance of a profile of its card, or a part of one (``split``)."""

    uuid: str
    profile: str
    gi: int
    ci: int
    shape: MigProfile
    start: int
    """Number of the first slice of the GPU's memory that its GPU instance has."""
    size: int
    """How many of these it has."""
    compute_slices: int
    """Of its GPU instance's slices, those that its compute instance has."""


@dataclass(frozen=True, kw_only=True)
class GpuSpec:
    """One simulated GPU. ``links`` maps a peer's UUID to the number of NVLinks; ``numa`` -1 = unknown."""

    profile: GpuProfile
    uuid: str
    pci: str
    minor: int
    serial: str
    numa: int = -1
    place: str = ""
    """``<processor>/<host bridge>/<switch>``; by default a host bridge of its own, its NUMA node being the
    processor."""
    used: int = 0
    links: Mapping[str, int] = field(default_factory=dict)
    recovery: int = 0
    events: int = ALL_EVENT_TYPES


def _mig(number: int, memory_mib: int, slices: int, processors: int) -> MigProfile:
    return MigProfile(
        id=number,
        memory_mib=memory_mib,
        slices=slices,
        processors=processors,
        copy_engines=slices,
        decoders=slices,
    )


A100_80GB: Final = GpuProfile(
    name="NVIDIA A100-SXM4-80GB",
    memory_mib=81920,
    reserved=641 * MIB,
    compute=(8, 0),
    brand=14,
    architecture=7,
    pci_device=0x20B210DE,
    pci_subsystem=0x146310DE,
    mig={
        "1g.10gb": _mig(19, 9728, 1, 14),
        "1g.10gb+me": _mig(20, 9728, 1, 14),
        "1g.20gb": _mig(15, 19968, 1, 14),
        "2g.20gb": _mig(14, 19968, 2, 28),
        "3g.40gb": _mig(9, 40192, 3, 42),
        "4g.40gb": _mig(5, 40192, 4, 56),
        "7g.80gb": _mig(0, 80640, 7, 98),
    },
)
RTX_A6000: Final = GpuProfile(
    name="NVIDIA RTX A6000",
    memory_mib=49140,
    reserved=482 * MIB,
    compute=(8, 6),
    brand=10,
    architecture=7,
    pci_device=0x223010DE,
    pci_subsystem=0x145910DE,
)
H200: Final = GpuProfile(
    name="NVIDIA H200",
    memory_mib=143771,
    reserved=644939776,
    compute=(9, 0),
    brand=14,
    architecture=9,
    pci_device=0x233510DE,
    pci_subsystem=0x18BF10DE,
    mig={
        "1g.18gb": _mig(19, 16384, 1, 16),
        "1g.18gb+me": _mig(20, 16384, 1, 16),
        "1g.35gb": _mig(15, 33280, 1, 26),
        "2g.35gb": _mig(14, 33280, 2, 32),
        "3g.71gb": _mig(9, 71424, 3, 60),
        "4g.71gb": _mig(5, 71424, 4, 64),
        "7g.141gb": _mig(0, 143360, 7, 132),
    },
)
"""Read from a real card (driver 580.159.04)."""


def gpu(profile: GpuProfile, index: int, *, node: str = "node") -> GpuSpec:
    """The GPU with this index on a node; its identity depends on nothing but node, index and model."""
    identity = uuid.uuid5(_NAMESPACE, f"{node}/{index}/{profile.name}")
    return GpuSpec(
        profile=profile,
        uuid=f"GPU-{identity}",
        pci=f"00000000:{0x07 + 0x10 * index:02X}:00.0",
        minor=index,
        serial=str(1_320_000_000_000 + identity.int % 1_000_000_000),
    )


def mig(spec: GpuSpec, profiles: Sequence[str]) -> tuple[MigSpec, ...]:
    """MIG devices of a GPU, one per profile name.

    Raises:
        ValueError: the card has no such profile, or no room for all of them.
    """
    known = spec.profile.mig
    for name in profiles:
        if name not in known:
            raise ValueError(
                f"{spec.profile.name} has no MIG profile {name}; it has: {', '.join(known) or 'none'}."
            )
    sizes = [-(-known[name].memory_mib * MEMORY_SLICES // spec.profile.memory_mib) for name in profiles]
    starts = _starts([(size, known[name].slices) for size, name in zip(sizes, profiles, strict=True)])
    return tuple(
        MigSpec(
            uuid=f"MIG-{uuid.uuid5(_NAMESPACE, f'{spec.uuid}/{number}/{name}')}",
            profile=name,
            gi=number + 1,
            ci=0,
            shape=known[name],
            start=starts[number],
            size=sizes[number],
            compute_slices=known[name].slices,
        )
        for number, name in enumerate(profiles)
    )


def split(device: MigSpec, parts: int) -> tuple[MigSpec, ...]:
    """So many MIG devices in place of one: equal compute instances of its GPU instance.

    They share its memory and its engines.
    """
    slices = device.compute_slices // parts
    shape = replace(device.shape, processors=device.shape.processors // parts)
    return tuple(
        replace(
            device,
            uuid=f"MIG-{uuid.uuid5(_NAMESPACE, f'{device.uuid}/{number}')}",
            profile=f"{slices}c.{device.profile}",
            ci=number,
            shape=shape,
            compute_slices=slices,
        )
        for number in range(parts)
    )


def _starts(wanted: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Where GPU instances of (slices of memory, of compute) begin: only some places suit each size."""
    places = {
        number: [start for start in range(0, MEMORY_SLICES, size) if start + slices <= COMPUTE_SLICES]
        for number, (size, slices) in enumerate(wanted)
    }
    taken, found = set[int](), dict[int, int]()
    for number in sorted(places, key=lambda one: len(places[one])):
        size = wanted[number][0]
        free = [start for start in places[number] if taken.isdisjoint(range(start, start + size))]
        if not free:
            raise ValueError(f"The card has no room for MIG device {number}, beside the others.")
        found[number] = free[-1]
        taken.update(range(free[-1], free[-1] + size))
    return found


def linked(first: GpuSpec, second: GpuSpec, count: int) -> tuple[GpuSpec, GpuSpec]:
    """The two GPUs with that many NVLinks between them."""
    return (
        replace(first, links={**first.links, second.uuid: count}),
        replace(second, links={**second.links, first.uuid: count}),
    )


def default_gpus(node_index: int) -> tuple[GpuSpec, ...]:
    """The GPUs of a node of the development cluster: two A100 joined by NVLink, two A6000.

    UUIDs differ between nodes and stay the same from start to start.
    """
    return gpus_of(f"node-{node_index}")


def gpus_of(node: str) -> tuple[GpuSpec, ...]:
    """The default GPUs, for a node of any name."""
    first, second = linked(gpu(A100_80GB, 0, node=node), gpu(A100_80GB, 1, node=node), 12)
    rest = (gpu(RTX_A6000, 2, node=node), gpu(RTX_A6000, 3, node=node))
    return tuple(replace(spec, numa=position // 2) for position, spec in enumerate((first, second, *rest)))
