"""Which devices are handed out, and how they are told to the kubelet: pure.

Used by the agent whenever NVML reports something.
"""

from collections.abc import Iterable

import msgspec

from cluster.objects.inventory import Device
from deviceplugin.allocate import Nodes, Strategy
from deviceplugin.nvml.inventory import NodeDevice

IN_MIG_MODE = "The GPU is in MIG mode, and MIG devices are not handed out"
"""Reason of a partitioned GPU."""
ABSENT = "NVML does not list this GPU any more"
UNKNOWN_MODEL = "unknown"
"""Model of a GPU of which only its id is left."""


def offered(devices: Iterable[NodeDevice], nodes: Nodes, strategy: Strategy) -> tuple[Device, ...]:
    """The whole GPUs of the node, unhealthy where they cannot be given to a container.

    MIG devices are left out, and the GPU that they are parts of is unhealthy: it was handed out as a whole
    once perhaps, and a known device is never dropped.
    """
    return tuple(_offered(device, nodes, strategy) for device in devices if device.published.parent is None)


def with_absent(
    devices: tuple[Device, ...], held: Iterable[str], before: Iterable[Device]
) -> tuple[Device, ...]:
    """The devices, and after them those that are gone though somebody knows them: unhealthy.

    Within one life of the agent NVML's side remembers what is gone. After a restart with a GPU missing it is
    the kubelet's record that still knows it: a device that vanishes from the list counts as healthy in the
    status of the pod that holds it.

    Args:
        devices: what NVML's side reports; nothing is added where it reports nothing.
        held: ids in the kubelet's record.
        before: what was told last.
    """
    if not devices:
        return ()
    listed = {device.uuid for device in devices}
    told = {device.uuid: device for device in before}
    absent = sorted((set(held) | set(told)) - listed)
    return devices + tuple(
        msgspec.structs.replace(
            told.get(uuid, Device(uuid=uuid, index=-1, model=UNKNOWN_MODEL)),
            health="unhealthy",
            reason=ABSENT,
        )
        for uuid in absent
    )


def _offered(device: NodeDevice, nodes: Nodes, strategy: Strategy) -> Device:
    reason = _obstacle(device, nodes, strategy)
    if reason is None or not device.published.is_healthy:
        return device.published
    return msgspec.structs.replace(device.published, health="unhealthy", reason=reason)


def _obstacle(device: NodeDevice, nodes: Nodes, strategy: Strategy) -> str | None:
    if device.partitioned:
        return IN_MIG_MODE
    if strategy is Strategy.ENVIRONMENT or device.uuid in nodes.of_device:
        return None
    if device.minor is None:
        return "The driver does not say which device node belongs to the GPU"
    return f"The device node /dev/nvidia{device.minor} is missing"
