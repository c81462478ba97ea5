"""Shared counters of GPUs in MIG mode: what each MIG device has of its GPU. Pure.

kube-scheduler gives a device only while the counters of its GPU have as much left as the device consumes. All
that is published exists side by side, so there is always room for all of it: a counter is the sum of what the
GPU instances have, and compute instances of one GPU instance each consume an equal part of what they share.

Counters have the names of NVIDIA's driver: ``memory-slice-0`` and so on by placement, memory in bytes,
multiprocessors, and engines.
Source: NVIDIA k8s-dra-driver-gpu 25.x; Kubernetes 1.37 (resource/v1/types.go: limits).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cluster.objects.claim_shares import MIB
from deviceplugin.nvml.inventory import NodeDevice

MOST_SETS: Final = 8
"""Counter sets in one slice."""
_ENGINES: Final[Mapping[str, str]] = {
    "copy-engines": "copy_engines",
    "decoders": "decoders",
    "encoders": "encoders",
    "jpeg-engines": "jpeg_engines",
    "ofa-engines": "ofa_engines",
}
"""Counter -> field of ``MigShape``, of what the compute instances of a GPU instance share."""
_MILLI: Final = 1000

Entry = dict[str, Any]
"""A part of a ResourceSlice as the API writes it."""


@dataclass(frozen=True, kw_only=True)
class Counted:
    """The counters of a node."""

    sets: Mapping[str, Entry] = field(default_factory=dict)
    """UUID of a GPU -> its entry of ``sharedCounters``."""
    consumed: Mapping[str, Entry] = field(default_factory=dict)
    """UUID of a MIG device -> its entry of ``consumesCounters``."""


def counted(devices: Iterable[NodeDevice]) -> Counted:
    """The counters of each GPU of whose instances it is known which slices of memory they have.

    Args:
        devices: all that exist and have a name, given out or not: a device that comes back finds its room.
    """
    of_gpu: dict[str, list[NodeDevice]] = {}
    for device in devices:
        if device.part is not None and device.published.parent is not None:
            of_gpu.setdefault(device.published.parent, []).append(device)
    sets: dict[str, Entry] = {}
    consumed: dict[str, Entry] = {}
    for gpu, parts in of_gpu.items():
        instances = _instances(parts)
        if not instances:
            continue
        name = f"gpu-{parts[0].minor}-counter-set"
        sets[gpu] = {"name": name, "counters": _written(sum(map(_total, instances), Counter()))}
        consumed |= {
            device.uuid: {"counterSet": name, "counters": _written(_of_one(device, len(instance)))}
            for instance in instances
            for device in instance
        }
    return Counted(sets=sets, consumed=consumed)


def _instances(parts: Sequence[NodeDevice]) -> list[list[NodeDevice]]:
    """The devices of each GPU instance; empty if it is not known where each is, or what was read cannot be.

    Instances are read one after the other: what somebody cuts meanwhile may seem to be in two places.
    """
    found: dict[int | None, list[NodeDevice]] = {}
    places: dict[int | None, range] = {}
    for device in parts:
        placement = device.part.placement if device.part else None
        if placement is None or places.setdefault(device.gpu_instance, placement.slices) != placement.slices:
            return []
        found.setdefault(device.gpu_instance, []).append(device)
    slices = [number for place in places.values() for number in place]
    return list(found.values()) if len(slices) == len(set(slices)) else []


def _total(instance: Sequence[NodeDevice]) -> Counter[str]:
    """What a GPU instance has, in thousandths."""
    found: Counter[str] = Counter()
    for device in instance:
        found |= _shared(device)
    found["multiprocessors"] = sum(_processors(device) for device in instance)
    return found


def _of_one(device: NodeDevice, sharers: int) -> Counter[str]:
    """What one of so many compute instances consumes, in thousandths."""
    found = Counter({name: amount // sharers for name, amount in _shared(device).items()})
    found["memory"] -= found["memory"] % _MILLI
    found["multiprocessors"] = _processors(device)
    return found


def _shared(device: NodeDevice) -> Counter[str]:
    """What the compute instances of a device's GPU instance have together, in thousandths."""
    found: Counter[str] = Counter()
    if (part := device.part) and part.placement:
        found.update({f"memory-slice-{number}": _MILLI for number in part.placement.slices})
        found["memory"] = part.memory_mib * MIB * _MILLI
        found.update({name: getattr(part.shape, one) * _MILLI for name, one in _ENGINES.items()})
    return found


def _processors(device: NodeDevice) -> int:
    return device.part.shape.processors * _MILLI if device.part else 0


def _written(amounts: Mapping[str, int]) -> Entry:
    """Counters as the API has them: ``2``, or ``333m`` of one that is shared; none that is 0."""
    return {
        name: {"value": f"{amount}m" if amount % _MILLI else str(amount // _MILLI)}
        for name, amount in sorted(amounts.items())
        if amount
    }
