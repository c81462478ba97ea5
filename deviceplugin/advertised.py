"""Which devices are advertised to the kubelet, and under which resources. Pure.

Used by the agent for every NVML report. First the state of each device (``advertised``, ``with_absent``,
``with_cordons``), then the list of each resource (``listed``).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

import msgspec

from cluster import names
from cluster.objects.inventory import MIG_UUID, Device, Sharing, resource_of
from cluster.objects.slots import in_order, physical, slots_of
from deviceplugin.device_nodes import DeviceNodes
from deviceplugin.injection.strategy import Strategy
from deviceplugin.nvml.inventory import NodeDevice
from deviceplugin.nvml.mig_strategy import EMPTY, NOT_ADVERTISED, MigStrategy, unequal

ABSENT = "NVML does not list this GPU any more"
TAKEN_WHOLE = "A pod has the whole GPU that it is a part of"
TAKEN_IN_PARTS = "A pod has a MIG device of it that does not exist any more"
IN_ITS_PLACE = "A pod has an earlier MIG device in its place"
NOT_SHARED = "It is not given in shares any more"
CLAIMED = "A claim may still have it, from when this node gave its GPUs by claims"
UNKNOWN_MODEL = "unknown"
"""The model of a GPU if only its id is known."""

_NOT_IN_A_NAME: Final = re.compile(r"[^a-z0-9-]+")


@dataclass(frozen=True, kw_only=True)
class AdvertisingOptions:
    """How devices are advertised, by the settings."""

    strategy: Strategy = Strategy.CDI
    mig: MigStrategy = MigStrategy.NONE
    slots: int = 0
    """How many containers can share a GPU; 0: GPUs are given whole only."""
    reserve: int = 0
    """MiB of each GPU that are not given in shares, besides the driver's own."""
    mps: AbstractSet[str] = frozenset()
    """UUIDs of GPUs that can be shared under MPS, too: their control daemons answer."""
    by_claims: bool = False
    """Whether claims give the devices (DRA), and no resource that a pod may name."""
    claims_are_bookable: bool = False
    """Whether these claims can be booked: then each device says by which name they have it."""

    @classmethod
    def of_claims(
        cls, strategy: Strategy, *, bookable: bool = False, slots: int = 0, reserve: int = 0
    ) -> "AdvertisingOptions":
        """Where claims give the devices: they name MIG devices one by one, so none is hidden for others."""
        return cls(
            strategy=strategy,
            mig=MigStrategy.MIXED,
            by_claims=True,
            claims_are_bookable=bookable,
            slots=slots if bookable else 0,
            reserve=reserve,
        )


def advertised(
    devices: Iterable[NodeDevice],
    nodes: DeviceNodes,
    options: AdvertisingOptions,
    held: AbstractSet[str] = frozenset(),
) -> tuple[Device, ...]:
    """The devices of the node; those that cannot be given to a container are unhealthy.

    MIG devices that the strategy does not advertise are left out, and their GPU is unhealthy: it may have
    been advertised as a whole earlier, and a known device is never dropped. A MIG device that no longer
    exists is listed as long as a pod holds it. A container keeps its device nodes for its lifetime, so a
    device that they give access to is unhealthy for other pods, however the GPU has been repartitioned since.

    Args:
        devices: all devices that are known from NVML.
        nodes: the device nodes that exist.
        options: how devices are advertised.
        held: ids of devices that pods hold.
    """
    found = tuple(device for device in devices if device.uuid in held or _is_advertised(device, options))
    parents = {device.published.parent for device in found if not device.gone}
    unfit = unequal(found) if options.mig is MigStrategy.SINGLE else None

    def unready_reason(device: NodeDevice) -> str | None:
        if device.partitioned:
            return _without_mig_devices(device, options, parents)
        missing = _missing_node(device, nodes, options)
        # A pod keeps the devices that it holds: its containers may restart.
        return missing if missing or device.uuid in held else unfit or _reached(device, found, held)

    present = by_name(found)
    return tuple(
        _named(_unhealthy_for(_shareable(device, options), unready_reason(device)), device, options, present)
        for device in found
    )


def partitioned_of(devices: Iterable[NodeDevice], options: AdvertisingOptions) -> frozenset[str]:
    """GPUs whose MIG devices are advertised in their place, even if they have none."""
    is_advertised = options.mig is not MigStrategy.NONE
    return frozenset(device.uuid for device in devices if is_advertised and device.partitioned)


def with_absent(
    devices: tuple[Device, ...], held: Mapping[str, Iterable[str]], before: Iterable[Device]
) -> tuple[Device, ...]:
    """The devices, followed by those that are gone but still known, as unhealthy.

    While the agent runs, the NVML thread remembers devices that are gone. After a restart with a GPU missing,
    only the kubelet's checkpoint still has it: a device that vanishes from the list counts as healthy in the
    status of the pod that holds it.

    Args:
        devices: as the NVML thread reports them; with none, nothing is added.
        held: resource -> ids in the kubelet's checkpoint.
        before: the devices that were advertised last.
    """
    if not devices:
        return ()
    listed_now = {device.uuid for device in devices}
    earlier = {device.uuid: device for device in before}
    named = {physical(device): resource for resource, ids in held.items() for device in ids}
    known = named.keys() | {uuid for uuid in earlier if not uuid.startswith(MIG_UUID)}
    return devices + tuple(
        msgspec.structs.replace(
            earlier.get(uuid) or _unknown(uuid, named[uuid]), health="unhealthy", reason=ABSENT
        )
        for uuid in sorted(known - listed_now)
    )


def with_claimed(devices: tuple[Device, ...], claimed: AbstractSet[str]) -> tuple[Device, ...]:
    """The devices; those that claims have are unhealthy for everybody else, on a node that gives none now."""
    return tuple(_unhealthy_for(device, CLAIMED if device.uuid in claimed else None) for device in devices)


def with_closed(devices: tuple[Device, ...], why: str | None) -> tuple[Device, ...]:
    """The devices, all unhealthy for new pods if the node offers nothing anew for a reason."""
    return tuple(_unhealthy_for(device, why) for device in devices)


def with_cordons(devices: tuple[Device, ...], cordoned: Mapping[str, str]) -> tuple[Device, ...]:
    """The devices; those that an administrator has cordoned, or whose GPU is cordoned, are unhealthy.

    A device that is unhealthy anyway keeps its own reason.

    Args:
        devices: all devices of the node.
        cordoned: uuid -> the administrator who cordoned it, and why.
    """
    return tuple(
        msgspec.structs.replace(device, health="unhealthy", reason=f"Cordoned by {why}")
        if device.is_healthy and (why := cordoned.get(device.uuid) or cordoned.get(device.parent or ""))
        else device
        for device in devices
    )


def listed(
    devices: tuple[Device, ...],
    partitioned: AbstractSet[str],
    held: Mapping[str, AbstractSet[str]],
    staying: Mapping[str, AbstractSet[str]] | None = None,
) -> dict[str, tuple[Device, ...]]:
    """Resource -> the devices advertised under this name; resources without devices are left out.

    A device is listed under its current resource. If a pod holds it under another one, or holds a GPU that
    has been partitioned since, it stays listed there as unhealthy, and is unavailable under the current one.
    A GPU that can be shared is listed by its slots, too. As long as a pod has it whole, its slots are
    unavailable; as long as pods share it, it is unavailable as a whole.
    What claims give is not listed: the driver of claims publishes it.

    Args:
        devices: as they are published.
        partitioned: GPUs in MIG mode whose MIG devices are advertised in their place.
        held: resource -> ids in the kubelet's checkpoint.
        staying: the same without pods that are being terminated, which bar nobody from a whole GPU or its
            slots: the next pod may be bound before the kubelet has heard that they are gone, and until then
            ``allocation`` gives it nothing of theirs. None: ``held``.
    """
    staying = held if staying is None else staying
    shared = frozenset(map(physical, staying.get(names.SHARED_RESOURCE, ())))
    found: dict[str, list[Device]] = {}
    for device in devices:
        today = resource_of(device)
        former = sorted(name for name, uuids in held.items() if device.uuid in uuids and name != today)
        if device.uuid not in partitioned:
            why = f"A pod has it as {former[0]}" if former else None
            why = f"A pod has it as {names.SHARED_RESOURCE}" if device.uuid in shared else why
            found.setdefault(today, []).append(_unhealthy_for(device, why))
        elif device.uuid in held.get(today, ()):
            former = [today]
        for name in former:
            why = f"It is advertised in another way than as {name} now"
            found.setdefault(name, []).append(_unhealthy_for(device, why))
    if slots := tuple(_slots(devices, partitioned, held, staying)):
        found[names.SHARED_RESOURCE] = list(slots)
    found.pop(names.CLAIM_RESOURCE, None)
    return {name: tuple(some) for name, some in sorted(found.items())}


def _slots(
    devices: tuple[Device, ...],
    partitioned: AbstractSet[str],
    held: Mapping[str, AbstractSet[str]],
    staying: Mapping[str, AbstractSet[str]],
) -> Iterator[Device]:
    """A device for each slot: those offered, and those that pods hold although they no longer are."""
    held_slots: dict[str, set[str]] = {}
    for slot in held.get(names.SHARED_RESOURCE, ()):
        held_slots.setdefault(physical(slot), set()).add(slot)
    for device in devices:
        is_offered = device.share and device.resource != names.CLAIM_RESOURCE
        offered = slots_of(device.uuid, device.share.slots if device.share and is_offered else 0)
        whole = [name for name, ids in sorted(staying.items()) if device.uuid in ids]
        why = f"A pod has it as {whole[0]}" if whole else None
        for slot in (*offered, *in_order(held_slots.get(device.uuid, set()).difference(offered))):
            is_offered = slot in offered and device.uuid not in partitioned
            one = _unhealthy_for(device, why if is_offered else NOT_SHARED)
            yield msgspec.structs.replace(one, uuid=slot, resource=names.SHARED_RESOURCE)


def _shareable(device: NodeDevice, options: AdvertisingOptions) -> Device:
    """The device as it is published, with what it offers to pods that share it."""
    memory = shared_memory(device, options.reserve)
    if not options.slots or not memory:
        return device.published
    offered = Sharing(slots=options.slots, memory=memory)
    if device.uuid in options.mps:
        offered = msgspec.structs.replace(offered, modes=("time-slice", "mps"))
    return msgspec.structs.replace(device.published, share=offered)


def shared_memory(device: NodeDevice, reserve: int) -> int:
    """MiB of the device that can be given in shares; 0 if it cannot be shared.

    Args:
        device: any.
        reserve: MiB that are not given, besides the driver's own.
    """
    if device.partitioned or device.published.parent is not None:
        return 0
    return max(0, device.published.memory - (device.facts.reserved_mib if device.facts else 0) - reserve)


def _is_advertised(device: NodeDevice, options: AdvertisingOptions) -> bool:
    return device.published.parent is None or not (device.gone or options.mig is MigStrategy.NONE)


def _unhealthy_for(device: Device, why: str | None) -> Device:
    """The device, unhealthy if there is a reason; an unhealthy one keeps its own reason."""
    if why is None or not device.is_healthy:
        return device
    return msgspec.structs.replace(device, health="unhealthy", reason=why)


def device_name(device: NodeDevice) -> str | None:
    """The name of a device in its pool; None without a device node, by which no container could get it.

    ``gpu-<minor>``, or for a MIG device ``gpu-<minor>-mig-<profile>-<GPU instance>``, with the number of the
    compute instance behind it for all but the first of a GPU instance.
    """
    if device.minor is None:
        return None
    if device.part is None:
        return f"gpu-{device.minor}"
    profile = _NOT_IN_A_NAME.sub("-", device.part.profile.lower())
    compute = f"-{device.part.compute_instance}" if device.part.compute_instance else ""
    return f"gpu-{device.minor}-mig-{profile}-{device.part.gpu_instance}{compute}"


def by_name(devices: Iterable[NodeDevice]) -> dict[str, NodeDevice]:
    """Name -> the device that has it now.

    A MIG device that is cut again at the same place has the name of the one before, and after a reload of the
    driver a GPU may have that of one that is missing: both are remembered.
    """
    present_last = sorted(devices, key=lambda one: (not one.gone, one.listed))
    return {name: device for device in present_last if (name := device_name(device))}


def _named(
    device: Device, known: NodeDevice, options: AdvertisingOptions, present: Mapping[str, NodeDevice]
) -> Device:
    """The device, with its resource if that differs from the default for its kind."""
    if options.claims_are_bookable:
        name = device_name(known)
        is_lost = not (known.listed or known.gone) and name is not None and present[name].uuid != known.uuid
        return msgspec.structs.replace(
            device,
            resource=names.CLAIM_RESOURCE,
            model=names.claimed_model(device.model),
            claimed_as=None if is_lost else name,
        )
    if options.by_claims:
        return msgspec.structs.replace(device, resource=names.CLAIM_RESOURCE)
    if options.mig is MigStrategy.SINGLE and device.parent is not None:
        return msgspec.structs.replace(device, resource=names.GPU_RESOURCE)
    return device


def _unknown(uuid: str, resource: str) -> Device:
    named = None if resource == names.GPU_RESOURCE else resource
    return Device(uuid=uuid, index=-1, model=UNKNOWN_MODEL, resource=named)


def _without_mig_devices(
    device: NodeDevice, options: AdvertisingOptions, parents: AbstractSet[str | None]
) -> str | None:
    """Why neither a GPU in MIG mode nor its MIG devices are advertised."""
    if options.mig is MigStrategy.NONE:
        return NOT_ADVERTISED
    return None if device.uuid in parents else EMPTY


def _missing_node(device: NodeDevice, nodes: DeviceNodes, options: AdvertisingOptions) -> str | None:
    """Why the device cannot be injected into a container."""
    if options.strategy is Strategy.ENVIRONMENT or device.uuid in nodes.of_device:
        return None
    if device.minor is None:
        return "The driver does not say which device node belongs to the GPU"
    if device.published.parent is not None:
        return "A device node that gives access to this MIG device is missing"
    return f"The device node /dev/nvidia{device.minor} is missing"


def _reached(device: NodeDevice, known: tuple[NodeDevice, ...], held: AbstractSet[str]) -> str | None:
    """Why the device nodes of a pod that holds another device give access to this one."""
    if device.published.parent in held:
        return TAKEN_WHOLE
    gone = [other.scope for other in known if other.gone and other.scope.gpu == device.scope.gpu]
    if gone and device.published.parent is None:
        return TAKEN_IN_PARTS
    return IN_ITS_PLACE if device.scope in gone else None
