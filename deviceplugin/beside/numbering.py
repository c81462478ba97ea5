"""Which numbered GPUs a node has whose devices another plugin gives out, and which of them are healthy. Pure.

The kubelet chooses the GPU that a pod gets, so the inventory has a count in place of UUIDs. What NVIDIA's
plugin offers is read from the kubelet: the ids that it has registered (a replica's is ``<id>::<n>``, a MIG
device's begins with ``MIG-``) and the Node's allocatable amounts. As many are healthy as are allocatable
less those that this agent finds unhealthy, and at least those that pods were assigned.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import msgspec

from cluster import names
from cluster.objects.given_devices import as_numbered
from cluster.objects.inventory import MIG_UUID, Device, Sharing, mig_model, numbered_uuid, resource_of
from cluster.objects.numbered import with_amount
from cluster.objects.slots import is_slot, physical
from deviceplugin.nvml.inventory import NodeDevice

Ids = Mapping[str, AbstractSet[str]]
"""Resource -> ids."""


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What is known of a node at one instant."""

    node: str
    devices: tuple[NodeDevice, ...]
    """As NVML lists them."""
    registered: Ids = field(default_factory=dict)
    """Healthy devices that the kubelet knows, by resource."""
    allocatable: Mapping[str, int] = field(default_factory=dict)
    """Resource -> amount, of the Node's status."""
    assigned: frozenset[str] = frozenset()
    """Numbered GPUs that living pods of this node were assigned."""
    slots: int = 0
    """How many containers can share a GPU that is opened for shares; 0: none is."""
    reserve: int = 0
    """MiB of each GPU that are not given in shares, besides the driver's own."""


@dataclass(frozen=True)
class NumberedGpu:
    """A numbered GPU, and the device that it stands for: the one of the same number, not that of its pod."""

    shown: Device
    stands_for: NodeDevice


def numbered(seen: Observed, out_before: AbstractSet[str] = frozenset()) -> tuple[Device, ...]:
    """The node's numbered GPUs, in the order of their numbers.

    Args:
        seen: what is known of the node.
        out_before: those that were unhealthy in the last answer; they stay so as long as as many must be.
    """
    groups: dict[str, list[NumberedGpu]] = {}
    for one in offered(seen):
        groups.setdefault(resource_of(one.shown), []).append(one)
    groups = {resource: _as_mixed(group) for resource, group in groups.items()}
    return tuple(
        device
        for resource, group in groups.items()
        for device in _with_health(seen, resource, group, out_before)
    )


def offered(seen: Observed) -> Iterator[NumberedGpu]:
    """What the other plugin offers, each with a number of its own."""
    parts_of: dict[str, int] = {}
    cut = _is_cut(seen)
    number = {device.uuid: device.published.index for device in seen.devices}
    for device in seen.devices:
        parent = device.published.parent
        if device.gone or (device.partitioned if cut else parent is not None):
            continue
        part = None
        if parent is not None:
            part = parts_of[parent] = parts_of.get(parent, -1) + 1
        resource = _resource(device.published, seen.registered)
        links = {
            numbered_uuid(seen.node, number[other]): count
            for other, count in (device.published.links or {}).items()
            if other in number
        }
        shown = _shown(seen.node, device.published, resource, part)
        shown = msgspec.structs.replace(shown, links=links or None, share=_offer(seen, device, shown))
        yield from _replicas(seen, device, resource, shown)


def serves(registered: Ids, allocatable: Mapping[str, int]) -> str | None:
    """Why the node's kubelet gives no GPU to a pod now, for people; None if it does."""
    offers = [name for name, amount in allocatable.items() if amount > 0 and _is_gpu(name)]
    if not offers:
        return "No GPU is allocatable on this node: its device plugin does not run, or has no healthy GPU."
    if not any(registered.get(name) for name in offers):
        return f"The kubelet's checkpoint has no registered device of {', '.join(sorted(offers))}."
    return None


def _is_gpu(resource: str) -> bool:
    return names.is_gpu_resource(resource.removesuffix(names.SHARED_SUFFIX))


def _is_cut(seen: Observed) -> bool:
    """Whether MIG devices are offered in place of their GPUs."""
    by_name = any(
        amount > 0 and name.startswith(names.MIG_RESOURCE_PREFIX) for name, amount in seen.allocatable.items()
    )
    return by_name or any(one.startswith(MIG_UUID) for ids in seen.registered.values() for one in ids)


def _resource(device: Device, registered: Ids) -> str:
    """The resource under which a device is offered; its usual name if the kubelet does not know it."""
    usual = resource_of(msgspec.structs.replace(device, resource=None))
    for resource in sorted(registered):
        if any(physical(one) == device.uuid for one in registered[resource]):
            return resource
    renamed = f"{usual}{names.SHARED_SUFFIX}"
    if usual in registered:
        return usual
    if renamed in registered:
        return renamed
    return names.GPU_RESOURCE if device.parent and names.GPU_RESOURCE in registered else usual


def _replicas(seen: Observed, device: NodeDevice, resource: str, shown: Device) -> Iterator[NumberedGpu]:
    """The device as it is offered: itself, or as many turns as each device of the resource has."""
    turns: dict[str, int] = {}
    for one in seen.registered.get(resource, ()):
        if is_slot(one):
            turns[physical(one)] = turns.get(physical(one), 0) + 1
    if not turns:
        yield NumberedGpu(shown, device)
        return
    for turn in range(max(turns.values())):
        uuid = f"{shown.uuid}.r{turn}"
        model = f"{shown.model}{names.SHARED_MODEL}"
        # Its memory is nobody's: each pod on the GPU may fill it.
        turned = msgspec.structs.replace(shown, uuid=uuid, model=model, memory=0, share=None)
        yield NumberedGpu(turned, device)


def _shown(node: str, device: Device, resource: str, part: int | None) -> Device:
    model = device.model
    if device.profile and names.MIG_MODEL not in model:
        model = mig_model(model, device.profile)
    usual = resource_of(msgspec.structs.replace(device, resource=None))
    return Device(
        uuid=numbered_uuid(node, device.index, part),
        index=device.index,
        model=model,
        memory=device.memory,
        numa=device.numa,
        profile=device.profile,
        resource=None if resource == usual else resource,
        numbered=True,
    )


def _offer(seen: Observed, device: NodeDevice, shown: Device) -> Sharing | None:
    """What a whole GPU offers to pods that share it, once a reservation pod has it."""
    memory = shown.memory - (device.facts.reserved_mib if device.facts else 0) - seen.reserve
    is_whole = shown.profile is None and resource_of(shown) == names.GPU_RESOURCE
    return Sharing(slots=seen.slots, memory=memory) if seen.slots and is_whole and memory > 0 else None


def _as_mixed(group: list[NumberedGpu]) -> list[NumberedGpu]:
    """The devices of a resource; of no certain model if they are of several, since any may be given."""
    if len({one.shown.model for one in group}) <= 1:
        return group
    least = min(one.shown.memory for one in group)
    turns = all(one.shown.model.endswith(names.SHARED_MODEL) for one in group)
    model = names.MIXED_REPLICA if turns else names.MIXED_MODEL
    return [
        replace(one, shown=msgspec.structs.replace(one.shown, model=model, memory=least, share=None))
        for one in group
    ]


def _with_health(
    seen: Observed, resource: str, group: list[NumberedGpu], out_before: AbstractSet[str]
) -> tuple[Device, ...]:
    unhealthy = [one for one in group if not one.stands_for.published.is_healthy]
    return with_amount(
        [one.shown for one in group],
        min(seen.allocatable.get(resource, 0), len(group) - len(unhealthy)),
        seen.assigned,
        reasons=tuple(map(_why, unhealthy)),
        rather=(out_before, {one.shown.uuid for one in unhealthy}),
    )


def _why(unhealthy: NumberedGpu) -> str:
    device = unhealthy.stands_for.published
    return f"GPU {device.index} ({device.uuid}) is unhealthy: {device.reason or 'no reason is known'}"


def really_has(
    shown: Iterable[Device], real: Iterable[str], assigned: Mapping[str, Iterable[str]], has: Ids
) -> dict[str, str]:
    """Numbered GPU -> UUID of the GPU that its pod really has, for people; no decision uses it.

    Numbers without a pod get the GPUs that are left, in order.

    Args:
        shown: all numbered GPUs of the node.
        real: UUIDs of its devices, in the order of their numbers.
        assigned: pod uid -> its numbered GPUs.
        has: pod uid -> ids that the kubelet gave it.
    """
    numbers = [device.uuid for device in shown]
    found: dict[str, str] = {}
    for uid, theirs in assigned.items():
        found.update(as_numbered(theirs, set(map(physical, has.get(uid, ())))))
    left = [uuid for uuid in real if uuid not in found.values()]
    found.update(zip((one for one in numbers if one not in found), left, strict=False))
    return {number: found[number] for number in numbers if number in found}
