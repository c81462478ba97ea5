"""What a container gets for its devices, by strategy: the answer to Allocate. Pure.

Used by ``plugin``. The kubelet keeps the answer for the pod's lifetime. An error fails the pod permanently,
so there is only one reason for it: ``held_elsewhere`` (law L1).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cluster import names
from cluster.objects.slots import as_a_name, in_order, is_slot, physical
from deviceplugin.device_nodes import DeviceNode, DeviceNodes


class Strategy(StrEnum):
    """How devices come into a container."""

    CDI = "cdi"
    """The container runtime applies our CDI specification (``cdi``). Nothing in the pod can override it."""
    ENVIRONMENT = "environment"
    """``NVIDIA_VISIBLE_DEVICES``, for NVIDIA's container runtime. No security boundary: a pod may set it."""
    DEVICE_NODES = "device-nodes"
    """The kubelet passes the device nodes; the image brings the driver's libraries."""


@dataclass(frozen=True)
class ContainerInjection:
    """The answer of Allocate for one container."""

    environment: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[DeviceNode, ...] = ()
    cdi_devices: tuple[str, ...] = ()


def injection_of(devices: Collection[str], strategy: Strategy, nodes: DeviceNodes) -> ContainerInjection:
    """What a container gets for these devices (ids: UUIDs, or slots of shares).

    Only with CDI does it get to know how much it may use of them: by the specifications of its slots, which
    ``share_files`` writes before it starts. Until then the container runtime refuses to start it.
    """
    ordered = sorted(set(map(physical, devices)))
    variables = {names.DEVICES_VARIABLE: ",".join(ordered)}
    match strategy:
        case Strategy.CDI:
            slots = tuple(share_name(device) for device in in_order(devices) if is_slot(device))
            return ContainerInjection(variables, cdi_devices=(*_qualified(ordered, nodes), *slots))
        case Strategy.ENVIRONMENT:
            return ContainerInjection(variables | {names.VISIBLE_DEVICES_VARIABLE: ",".join(ordered)})
        case Strategy.DEVICE_NODES:
            # Two parts of one GPU share its node, which the kubelet would otherwise pass on twice.
            own = dict.fromkeys(node for uuid in ordered for node in nodes.of_device.get(uuid, ()))
            return ContainerInjection(variables, nodes=(*own, *nodes.common))


def share_name(slot: str) -> str:
    """The qualified name of the CDI device that tells a container its share.

    >>> share_name("GPU-a::3")
    'gpu-booking.io/share=GPU-a-3'
    """
    return f"{names.SHARE_KIND}={as_a_name(slot)}"


def _qualified(devices: Collection[str], nodes: DeviceNodes) -> tuple[str, ...]:
    """CDI names, all from one specification: then a container gets the edits common to its devices once."""
    if all(uuid in nodes.cdi_names for uuid in devices):
        return tuple(nodes.cdi_names[uuid] for uuid in devices)
    return tuple(f"{names.CDI_KIND}={uuid}" for uuid in devices)
