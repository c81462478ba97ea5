"""The devices of this node, read through NVML.

An unhealthy GPU never hides the others, and a known device is never left out: it is listed unhealthy, with
the reason. The kubelet forgets a device that its plugin no longer lists, and with it the pod that holds it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from cluster import names
from cluster.objects.inventory import Device, mig_model
from deviceplugin.nvml.health import HealthState, Scope, State
from deviceplugin.nvml.interface import GpuFacts, MigFacts, Nvml, NvmlError

_NAMELESS: Final = "unknown"
"""The model of a GPU whose name has no letter that a label may have."""
_GONE: Final = "NVML does not list this GPU any more"
MIG_GONE: Final = "This MIG device does not exist any more"
MOST_GONE: Final = 4_000
"""Maximum number of MIG devices that are gone and remembered: the latest ones. Each partitioning of a GPU
creates new ones, up to 112 on a node. A pod may hold one that is gone, so a few partitionings must not be
enough to forget it."""


class NodeDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device with all that the agent needs: for publishing it, and for its injection into a container."""

    published: Device
    minor: int | None
    """Number of the GPU's device node ``/dev/nvidia<minor>``; for a MIG device, that of its parent."""
    pci: str
    gpu_instance: int | None = None
    compute_instance: int | None = None
    partitioned: bool = False
    """Whether it is a GPU in MIG mode: its MIG devices are given to pods, never the GPU itself."""
    gone: bool = False
    """Whether it is a MIG device that no longer exists: it matters only while a pod holds it."""
    listed: bool = True
    """Whether NVML lists it now; a device whose calls fail is listed."""
    facts: GpuFacts | None = None
    """NVML's properties of the GPU; for a MIG device, those of its parent."""
    part: MigFacts | None = None
    """NVML's properties of the MIG device."""
    state: State = State.HEALTHY
    """The state by ``health``; a device that cannot be read is unhealthy."""

    @property
    def uuid(self) -> str:
        """The device's UUID, which is also its id for the kubelet."""
        return self.published.uuid

    @property
    def scope(self) -> Scope:
        """The scope by which ``health`` knows it."""
        return Scope(self.published.parent or self.uuid, self.gpu_instance, self.compute_instance)

    def as_unhealthy(self, reason: str, state: State = State.UNHEALTHY) -> "NodeDevice":
        """The device, unhealthy for this reason."""
        worse = msgspec.structs.replace(self.published, health="unhealthy", reason=reason)
        return msgspec.structs.replace(self, published=worse, state=state)


def read_inventory(
    nvml: Nvml, numa_of: Callable[[str], int | None], known: Sequence[NodeDevice] = ()
) -> tuple[NodeDevice, ...]:
    """All devices in NVML's order: each GPU, then its MIG devices; at the end those that are gone.

    ``known`` is the previous inventory. A GPU whose calls fail keeps its known properties and is unhealthy;
    one that fails before anything is known about it is left out.

    Raises:
        NvmlError: the number of GPUs cannot be read.
    """
    found: list[NodeDevice] = []
    faults: dict[int, str] = {}
    for index in range(nvml.count()):
        try:
            found.extend(_read_gpu(nvml, index, numa_of))
        except NvmlError as error:
            faults[index] = str(error)
    return (*_linked(nvml, found), *_missing(known, found, faults))


def with_earlier(devices: tuple[NodeDevice, ...], earlier: Sequence[NodeDevice]) -> tuple[NodeDevice, ...]:
    """The devices, followed by earlier MIG devices that are gone."""
    gone = tuple(msgspec.structs.replace(device, gone=True) for device in earlier)
    return (*devices, *_missing(gone, devices, {}))


def with_health(devices: Iterable[NodeDevice], health: HealthState) -> tuple[NodeDevice, ...]:
    """The devices; those whose health state is not healthy are unhealthy. An earlier reason is kept."""
    return tuple(
        device.as_unhealthy(reason, health.state(device.scope))
        if device.published.is_healthy and (reason := health.reason(device.scope))
        else device
        for device in devices
    )


def physical(devices: Iterable[NodeDevice]) -> tuple[str, ...]:
    """UUIDs of the GPUs, without MIG devices."""
    return tuple(device.uuid for device in devices if device.published.parent is None)


def _read_gpu(nvml: Nvml, index: int, numa_of: Callable[[str], int | None]) -> list[NodeDevice]:
    uuid = nvml.uuid(index)
    facts = nvml.facts(uuid)
    parts = nvml.mig(uuid)
    whole = NodeDevice(
        published=Device(
            uuid=uuid,
            index=index,
            model=_model(facts),
            memory=facts.memory_mib or 0,
            numa=numa_of(facts.pci),
        ),
        minor=facts.minor,
        pci=facts.pci,
        partitioned=parts is not None,
        facts=facts,
    )
    return [whole, *(_mig_device(whole, facts, part) for part in parts or ())]


def _model(facts: GpuFacts) -> str:
    return names.as_label(facts.name) or _NAMELESS


def _mig_device(whole: NodeDevice, facts: GpuFacts, part: MigFacts) -> NodeDevice:
    return NodeDevice(
        published=Device(
            uuid=part.uuid,
            index=whole.published.index,
            model=mig_model(_model(facts), part.profile),
            memory=part.memory_mib,
            numa=whole.published.numa,
            parent=whole.uuid,
            profile=part.profile,
        ),
        minor=whole.minor,
        pci=whole.pci,
        gpu_instance=part.gpu_instance,
        compute_instance=part.compute_instance,
        facts=facts,
        part=part,
    )


def _linked(nvml: Nvml, found: Sequence[NodeDevice]) -> tuple[NodeDevice, ...]:
    """The devices with their NVLinks. Links only rank devices: a GPU whose links cannot be read has none.

    A GPU in MIG mode has none: the driver does not connect MIG devices to other GPUs.
    """
    ends: dict[str, Sequence[str]] = {}
    for uuid in physical(device for device in found if not device.partitioned):
        try:
            ends[uuid] = nvml.links(uuid)
        except NvmlError:
            ends[uuid] = ()
    at = {device.pci: device.uuid for device in found if device.published.parent is None}
    switched = {uuid: sum(end not in at for end in far) for uuid, far in ends.items()}
    return tuple(
        _with_links(device, _peers(device.uuid, ends[device.uuid], at=at, switched=switched))
        if device.uuid in ends
        else device
        for device in found
    )


def _peers(
    uuid: str, far: Sequence[str], *, at: Mapping[str, str], switched: Mapping[str, int]
) -> dict[str, int]:
    """Links per peer: direct ones, and those through a switch, which connect to every GPU on that switch."""
    peers: dict[str, int] = {}
    for end in far:
        if end in at:
            peers[at[end]] = peers.get(at[end], 0) + 1
    for other, count in switched.items():
        shared = min(count, switched[uuid])
        if other != uuid and shared:
            peers[other] = peers.get(other, 0) + shared
    return peers


def _with_links(device: NodeDevice, peers: dict[str, int]) -> NodeDevice:
    return msgspec.structs.replace(
        device, published=msgspec.structs.replace(device.published, links=peers or None)
    )


def _missing(
    known: Sequence[NodeDevice], found: Sequence[NodeDevice], faults: Mapping[int, str]
) -> tuple[NodeDevice, ...]:
    """The devices that were known before and are missing now, the latest first."""
    present = {device.uuid for device in found}
    missing = [
        msgspec.structs.replace(
            device.as_unhealthy(_absence(device, present, faults)),
            gone=device.gone or device.published.parent in present,
            listed=device.published.parent not in present and device.published.index in faults,
        )
        for device in known
        if device.uuid not in present
    ]
    forgotten = {device.uuid for device in [one for one in missing if one.gone][MOST_GONE:]}
    return tuple(device for device in missing if device.uuid not in forgotten)


def _absence(device: NodeDevice, present: set[str], faults: Mapping[int, str]) -> str:
    if device.published.parent in present:
        return MIG_GONE
    return faults.get(device.published.index, _GONE)
