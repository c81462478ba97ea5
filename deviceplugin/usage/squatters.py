"""Processes that use a GPU which their pod does not hold. Pure.

A process is entitled to its device if its pod holds that device. On a whole GPU it may also belong to a pod
with any of the GPU's MIG devices, on a MIG device to a pod with the whole GPU. Missing knowledge never makes
a process a squatter: one that has ended or cannot be read is ignored, and all are while the checkpoint
cannot be read (law L6). A pod's last process may outlive the pod for a moment, so a process is reported only
when it is found twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from deviceplugin.nvml.interface import GpuProcess, GpuUsage
from deviceplugin.nvml.inventory import NodeDevice
from deviceplugin.usage.cgroups import LiveProcess
from deviceplugin.usage.holders import Holder


@dataclass(frozen=True, slots=True)
class SquattingProcess:
    """A process on a device that its pod does not hold."""

    device: str
    index: int
    seen: LiveProcess
    memory: int | None
    """Bytes that the process uses; None if NVML does not report them."""
    held_by: tuple[str, ...] = ()
    """Uids of the pods that hold the device."""

    @property
    def key(self) -> tuple[str, int, str]:
        """Identifies the process on the device for as long as it lives."""
        return self.device, self.seen.pid, self.seen.started


@dataclass(frozen=True, slots=True)
class ProcessOnDevice:
    """A process, and the device that it is on."""

    device: NodeDevice
    process: GpuProcess


def processes_on_devices(
    devices: Sequence[NodeDevice], usages: Mapping[str, GpuUsage]
) -> tuple[ProcessOnDevice, ...]:
    """Every process on every device: on a MIG device if the driver names a known one, else on its GPU."""
    gpus = {device.uuid: device for device in devices if device.published.parent is None}
    return tuple(
        ProcessOnDevice(_part(process, gpus[gpu], devices), process)
        for gpu, usage in usages.items()
        if gpu in gpus
        for process in usage.processes
    )


def squatting(
    on_devices: Iterable[ProcessOnDevice],
    seen: Mapping[int, LiveProcess],
    held: Iterable[Holder],
    *,
    family: Mapping[str, frozenset[str]],
    tolerated: frozenset[str],
) -> tuple[SquattingProcess, ...]:
    """The processes on devices that they are not entitled to, at this instant.

    Args:
        on_devices: the processes and their devices.
        seen: pid -> the process, where it could be read.
        held: the holders of all devices.
        family: device -> the devices whose holders may have processes on it: itself, its GPU, its parts.
        tolerated: names of processes of no pod that may use GPUs (a display server).
    """
    holders: dict[str, set[str]] = {}
    for holder in held:
        holders.setdefault(holder.device, set()).add(holder.uid)
    found: list[SquattingProcess] = []
    for where in on_devices:
        process = seen.get(where.process.pid)
        uuid = where.device.uuid
        if process is None or (process.owner.uid is None and process.command in tolerated):
            continue
        entitled = {uid for kin in family.get(uuid, ()) for uid in holders.get(kin, ())}
        if process.owner.uid is None or process.owner.uid not in entitled:
            index, memory = where.device.published.index, where.process.memory
            found.append(SquattingProcess(uuid, index, process, memory, tuple(sorted(entitled))))
    return tuple(found)


def families(devices: Sequence[NodeDevice]) -> Mapping[str, frozenset[str]]:
    """Device -> itself, its MIG devices, and the GPU that it is a part of."""
    return {
        device.uuid: frozenset(
            other.uuid
            for other in devices
            if other.uuid in {device.uuid, device.published.parent} or other.published.parent == device.uuid
        )
        for device in devices
    }


def used_by_pods(
    on_devices: Iterable[ProcessOnDevice], seen: Mapping[int, LiveProcess]
) -> Mapping[tuple[str, str], int]:
    """(Device, pod uid) -> bytes that the pod's processes use there, as far as the driver reports it."""
    used: dict[tuple[str, str], int] = {}
    for where in on_devices:
        process = seen.get(where.process.pid)
        if process is None or process.owner.uid is None or where.process.memory is None:
            continue
        key = (where.device.uuid, process.owner.uid)
        used[key] = used.get(key, 0) + where.process.memory
    return used


class Suspects:
    """Remembers the squatters that were found at the last call."""

    def __init__(self) -> None:
        self._before: frozenset[tuple[str, int, str]] = frozenset()

    def confirmed(self, found: Sequence[SquattingProcess]) -> tuple[SquattingProcess, ...]:
        """The squatters that were also found at the last call."""
        before, self._before = self._before, frozenset(one.key for one in found)
        return tuple(one for one in found if one.key in before)


def _part(process: GpuProcess, gpu: NodeDevice, devices: Sequence[NodeDevice]) -> NodeDevice:
    if process.gpu_instance is None:
        return gpu
    for device in devices:
        if (
            device.published.parent == gpu.uuid
            and device.gpu_instance == process.gpu_instance
            and process.compute_instance in {None, device.compute_instance}
        ):
            return device
    return gpu
