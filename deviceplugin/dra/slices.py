"""The devices of this node as kube-scheduler sees them: the content of the ResourceSlices. Pure.

Attributes and capacities have the names of NVIDIA's driver, so that expressions written for it hold here.
Source: NVIDIA k8s-dra-driver-gpu 25.x, Kubernetes 1.37 (resource/v1/types.go: limits).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cluster import claim_names
from cluster.objects.claim_shares import MEMORY, MIB
from deviceplugin.advertised import by_name
from deviceplugin.dra.counters import MOST_SETS, Counted, Entry
from deviceplugin.node.feature_labels import family
from deviceplugin.nvml.inventory import NodeDevice

MOST: Final = 64
"""Devices in one slice: the limit for devices with taints, or that consume counters."""
CONSUMES: Final = "consumesCounters"
PCI_ATTRIBUTE: Final = "resource.kubernetes.io/pciBusID"
NUMA_ATTRIBUTE: Final = "resource.kubernetes.io/numaNode"
ROOT_ATTRIBUTE: Final = "resource.kubernetes.io/pcieRoot"
LEAST_SHARE: Final = 256
"""MiB: a request for less is one for so much. A process takes about as much before it allocates any."""
LONGEST_STRING: Final = 64
"""Characters of an attribute's text."""
_BRANDS: Final = ("GeForce", "Quadro", "Titan", "Tesla")


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What the API server stores of a slice: it drops the fields of gates that are off, and says nothing."""

    taints: bool = True
    shares: bool = True
    counters: bool = True


@dataclass(frozen=True, kw_only=True)
class Published:
    """What the slices of a node have."""

    devices: tuple[Entry, ...] = ()
    counter_sets: tuple[Entry, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What is true of all devices of the node, and where they are in it."""

    driver_version: str | None = None
    """As NVML reports it: ``580.159.04``."""
    cuda_version: tuple[int, int] | None = None
    root_of: Callable[[str], str | None] = lambda _: None
    """PCI address -> its PCIe root: ``pci0000:00``."""


def offered(devices: Iterable[NodeDevice]) -> dict[str, NodeDevice]:
    """Name -> the devices that claims can have: GPUs that are not partitioned, and MIG devices that exist."""
    return {
        name: device
        for name, device in by_name(devices).items()
        if not device.partitioned and not device.gone
    }


def entries(
    devices: Mapping[str, NodeDevice],
    around: Surroundings,
    *,
    unhealthy: Mapping[str, str],
    taken: frozenset[str] = frozenset(),
    with_taints: bool = True,
    shares: Mapping[str, int] | None = None,
    counters: Counted | None = None,
) -> Published:
    """The devices for the slices, in the order of their names, and the counters that they consume.

    Args:
        devices: name -> device.
        around: what is true of all.
        unhealthy: UUID -> its state, in the form of a label's value: it gets no new pods.
        taken: UUIDs of devices that pods still have by the device plugin: left out until they end.
        with_taints: whether the API server knows taints of devices; if not, unhealthy devices are left out.
        shares: UUID -> MiB, of devices that several claims may have: that is their capacity then.
        counters: of GPUs in MIG mode; None where the API server does not store them.
    """
    shares, counters = shares or {}, counters or Counted()
    found = {
        device.uuid: _entry(
            name, device, around, state=unhealthy.get(device.uuid), share=shares.get(device.uuid, 0)
        )
        for name, device in sorted(devices.items())
        if device.uuid not in taken and (with_taints or device.uuid not in unhealthy)
    }
    for uuid in found.keys() & counters.consumed.keys():
        found[uuid][CONSUMES] = [counters.consumed[uuid]]
    gpus = {devices[entry["name"]].published.parent for entry in found.values() if CONSUMES in entry}
    sets = [one for gpu, one in counters.sets.items() if gpu in gpus]
    return Published(
        devices=tuple(found.values()), counter_sets=tuple(sorted(sets, key=lambda one: str(one["name"])))
    )


def parts(found: Published) -> dict[str, Entry]:
    """The end of each slice's name -> what it has: devices or sets of counters, as many as one may have.

    A node without any device has one slice, without any.
    """
    devices, sets = _cut(found.devices, MOST), _cut(found.counter_sets, MOST_SETS)
    # A name with another hyphen could be that of another node's slice.
    return {str(number): {"devices": part} for number, part in enumerate(devices or [[]])} | {
        f"counters{number}": {"sharedCounters": part} for number, part in enumerate(sets)
    }


def _cut(found: Sequence[Entry], most: int) -> list[list[Entry]]:
    return [list(found[start : start + most]) for start in range(0, len(found), most)]


def semantic(version: str) -> str | None:
    """A version as the API wants it, with three numbers and no leading zeros; None if it is no version.

    >>> semantic("580.159.04"), semantic("535.86"), semantic("?")
    ('580.159.4', '535.86.0', None)
    """
    numbers = version.split(".")
    if not all(number.isdecimal() for number in numbers):
        return None
    return ".".join(str(int(number)) for number in [*numbers, "0", "0"][:3])


def _entry(name: str, device: NodeDevice, around: Surroundings, *, state: str | None, share: int) -> Entry:
    entry: Entry = {"name": name, "attributes": _attributes(device, around)}
    entry["capacity"] = {MEMORY: _consumed(share) if share else _bytes(device.published.memory)}
    if share:
        entry["allowMultipleAllocations"] = True
    if state is not None:
        entry["taints"] = [{"key": claim_names.UNHEALTHY_TAINT, "value": state, "effect": "NoSchedule"}]
    return entry


def _attributes(device: NodeDevice, around: Surroundings) -> dict[str, dict[str, Any]]:
    facts, part = device.facts, device.part
    product = facts.name if facts else device.published.model
    compute = facts.compute if facts else None
    texts = {
        "type": "gpu" if part is None else "mig",
        "uuid": device.uuid,
        "productName": product,
        "brand": next((brand for brand in _BRANDS if brand in product), "Nvidia"),
        "architecture": family(compute).title() if compute else None,
        "profile": part.profile if part else None,
        "parentUUID": device.published.parent,
        PCI_ATTRIBUTE: device.pci or None,
        ROOT_ATTRIBUTE: around.root_of(device.pci) if device.pci else None,
    }
    versions = {
        "cudaComputeCapability": f"{compute[0]}.{compute[1]}.0" if compute else None,
        "driverVersion": semantic(around.driver_version or "?"),
        "cudaDriverVersion": "{}.{}.0".format(*around.cuda_version) if around.cuda_version else None,
    }
    numbers = {"index": device.published.index, NUMA_ATTRIBUTE: device.published.numa}
    found: dict[str, dict[str, Any]] = {
        key: {"string": text[:LONGEST_STRING]} for key, text in texts.items() if text
    }
    found |= {key: {"version": version} for key, version in versions.items() if version}
    found |= {key: {"int": number} for key, number in numbers.items() if number is not None}
    found["migEnabled"] = {"bool": part is not None}
    return dict(sorted(found.items()))


def _bytes(mebibytes: int) -> Entry:
    return {"value": str(mebibytes * MIB)}


def _consumed(mebibytes: int) -> Entry:
    """Memory that several claims can share: all of it for one that names no amount, else whole MiB."""
    # What is consumed is written in the unit of the step.
    amounts = {"min": f"{min(LEAST_SHARE, mebibytes)}Mi", "step": "1Mi"}
    return {**_bytes(mebibytes), "requestPolicy": {"default": f"{mebibytes}Mi", "validRange": amounts}}
