"""A snapshot of this node: its devices, their usage, holders and squatters. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from cluster.objects.device_usage import MOST_SQUATTERS, DeviceUsage, NodeUsage, OverUser, Squatter
from cluster.objects.pods import Pod
from deviceplugin.allocation.share_limits import Place
from deviceplugin.nvml.interface import GpuUsage
from deviceplugin.nvml.inventory import NodeDevice
from deviceplugin.usage.holders import Holder, HolderSnapshot, owner_labels
from deviceplugin.usage.shares import Overuse, overuse
from deviceplugin.usage.squatters import SquattingProcess

_MIB: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class UsageSnapshot:
    """The known state at one instant."""

    devices: tuple[NodeDevice, ...] = ()
    """Those that were measured, each GPU with its MIG devices."""
    usages: Mapping[str, GpuUsage] = field(default_factory=dict)
    """Device -> its usage; of a MIG device only the memory."""
    held: tuple[Holder, ...] = ()
    pods: Mapping[str, Pod] = field(default_factory=dict)
    """Uid -> pod of this node, for the known pods."""
    memory: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """(Device, pod uid) -> bytes that the pod's processes use there."""
    squatting: tuple[SquattingProcess, ...] = ()
    shares: Mapping[Place, int] = field(default_factory=dict)
    """(Device, pod uid) -> bytes that the pod may use there, with those that have its claim."""
    overuse: tuple[Overuse, ...] = ()


def join(
    devices: Sequence[NodeDevice],
    usages: Mapping[str, GpuUsage],
    *,
    snapshot: HolderSnapshot,
    memory: Mapping[tuple[str, str], int],
    squatting: tuple[SquattingProcess, ...],
) -> UsageSnapshot:
    """The snapshot, with a usage of its own for each MIG device."""
    parts = {
        device.uuid: GpuUsage(memory_used=used, memory_total=(device.published.memory * _MIB) or None)
        for device in devices
        if (parent := device.published.parent) in usages
        and parent is not None
        and (used := usages[parent].parts.get(device.uuid)) is not None
    }
    known = {device.uuid for device in devices}
    measured = {uuid: usage for uuid, usage in usages.items() if uuid in known} | parts
    return UsageSnapshot(
        devices=tuple(device for device in devices if device.uuid in measured),
        usages=measured,
        held=snapshot.held,
        pods={pod.metadata.uid: pod for pod in snapshot.pods},
        memory=memory,
        squatting=squatting,
        shares=snapshot.shares,
        overuse=overuse((device.published for device in devices), snapshot.shares, memory, snapshot.together),
    )


def use_of(snapshot: UsageSnapshot, at: datetime) -> NodeUsage:
    """The snapshot in the form that the booking server reads."""
    ranked = sorted(snapshot.squatting, key=lambda one: (-(one.memory or 0), one.key))
    return NodeUsage(
        at=at.replace(microsecond=0),
        devices=tuple(_device(device.uuid, snapshot) for device in snapshot.devices),
        squatters=tuple(_squatter(one, snapshot) for one in ranked[:MOST_SQUATTERS]),
        more=max(0, len(ranked) - MOST_SQUATTERS),
        over_users=tuple(map(_over_user, snapshot.overuse)),
    )


def _device(uuid: str, snapshot: UsageSnapshot) -> DeviceUsage:
    usage = snapshot.usages[uuid]
    pods = {
        holder.uid: used // _MIB
        for holder in snapshot.held
        if holder.device == uuid and (used := snapshot.memory.get((uuid, holder.uid))) is not None
    }
    return DeviceUsage(
        uuid=uuid,
        utilisation=usage.utilisation,
        memory=None if usage.memory_used is None else usage.memory_used // _MIB,
        temperature=usage.temperature,
        power=None if usage.power is None else round(usage.power),
        pods=pods or None,
    )


def _over_user(one: Overuse) -> OverUser:
    """Rounded so that it still is too much."""
    return OverUser(
        device=one.device,
        uid=one.uid,
        used=-(-one.used // _MIB),
        limit=one.limit // _MIB,
        pods=max(1, len(one.together)),
    )


def _squatter(one: SquattingProcess, snapshot: UsageSnapshot) -> Squatter:
    uid = one.seen.owner.uid
    namespace, name, user, _ = owner_labels(snapshot.pods.get(uid or ""))
    return Squatter(
        device=one.device,
        pid=one.seen.pid,
        command=one.seen.command,
        memory=None if one.memory is None else one.memory // _MIB,
        uid=uid,
        namespace=namespace or None,
        name=name or None,
        user=user or None,
    )
