"""The inventory of a node: what its agent writes on the Node, and how it is read back.

The annotation ``names.INVENTORY`` holds JSON::

    {"devices": [{"uuid": "GPU-...", "index": 0, "model": "NVIDIA-A100-SXM4-80GB", "memory": 81920,
                  "numa": 0, "links": {"GPU-...": 12}},
                 {"uuid": "GPU-...", "index": 1, ..., "health": "unhealthy", "reason": "XID 79: ..."}]}

Memory is in MiB. What is not said is at its default: a device without ``health`` is healthy. A MIG device
carries ``parent`` (UUID of its GPU) and ``profile``, and where the kubelet does not know it under the name of
its profile, ``resource``. Of it, what follows from its GPU is left out (index, model, NUMA node, and the
health of an unhealthy GPU), so that sixteen GPUs of seven MIG devices each take less than half of what they
could::

    {"uuid": "MIG-...", "memory": 9728, "parent": "GPU-...", "profile": "1g.10gb"}
"""

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from cluster import names
from cluster.objects.meta import UNREADABLE, Partial, Versioned, ready
from cluster.objects.nodes import Node

_UNSAID: Final[dict[str, Any]] = {"index": -1, "model": "", "numa": None}
"""What a MIG device inherits from its GPU, and how an unknown value is written."""


class InventoryError(ValueError):
    """An inventory annotation that cannot be read: the node counts as one without GPUs until it can."""


class Device(Partial, frozen=True):
    """One GPU, or one MIG device, of a node."""

    uuid: str
    index: int = -1
    """The GPU's number; -1 where it is no longer known."""
    model: str = ""
    memory: int = 0
    """MiB; 0 where the driver does not say."""
    health: Literal["healthy", "unhealthy"] = "healthy"
    reason: str | None = None
    """Why it is unhealthy, for people."""
    numa: int | None = None
    links: dict[str, int] | None = None
    """NVLinks to other GPUs of the node: UUID -> number of links."""
    parent: str | None = None
    profile: str | None = None
    resource: str | None = None
    """Under which it is asked for, where profile or its absence do not say it."""

    @property
    def is_healthy(self) -> bool:
        """Whether the device may be given to a new pod."""
        return self.health == "healthy"


@ready
class Inventory(Versioned, frozen=True, kw_only=True):
    """All devices of a node, unhealthy ones too: a known device is never left out."""

    devices: tuple[Device, ...] = ()


def encode_inventory(devices: tuple[Device, ...]) -> str:
    """The text of the annotation. Equal devices give equal text."""
    return msgspec.json.encode(Inventory(devices=_by_parent(devices, _brief))).decode()


def decode_inventory(text: str) -> tuple[Device, ...]:
    """The devices in an annotation's text.

    Raises:
        InventoryError: not an inventory.
    """
    try:
        devices = _by_parent(msgspec.json.decode(text, type=Inventory).devices, _full)
    except UNREADABLE as error:
        raise InventoryError(f"The annotation {names.INVENTORY} is not an inventory: {error}.") from error
    if nameless := [device.uuid for device in devices if not device.model]:
        raise InventoryError(f"The annotation {names.INVENTORY} says no model of {nameless[0]}.")
    return devices


def inventory_of(node: Node) -> tuple[Device, ...]:
    """The devices that the node's agent has published; none when it has not.

    Raises:
        InventoryError: the annotation cannot be read.
    """
    text = node.metadata.annotation(names.INVENTORY)
    return decode_inventory(text) if text else ()


def resource_of(device: Device) -> str:
    """The resource under which a device is asked for.

    A MIG device's profile ``1g.5gb+me`` is ``nvidia.com/mig-1g.5gb.me`` as a resource (``+`` may not occur
    in a resource name). Source: NVIDIA k8s-device-plugin, strategy ``mixed``. In strategy ``single`` the
    agent says that it is asked for as a GPU.
    """
    if device.resource is not None:
        return device.resource
    if device.profile is None:
        return names.GPU_RESOURCE
    return _mig_resource(device.profile)


def asked_as(device: Device) -> tuple[str, ...]:
    """The resources for which a pod can have been given the device.

    More than ``resource_of`` for MIG devices: an agent may know them by another strategy than the one in
    which a pod began that still runs.
    """
    if device.profile is None:
        return (resource_of(device),)
    return (_mig_resource(device.profile), names.GPU_RESOURCE)


def mig_model(model: str, profile: str) -> str:
    """The model of a MIG device, as NVIDIA's feature discovery names it.

    >>> mig_model("NVIDIA-A100-SXM4-80GB", "1g.10gb")
    'NVIDIA-A100-SXM4-80GB-MIG-1g.10gb'
    """
    return f"{model}-MIG-{profile}"


def _mig_resource(profile: str) -> str:
    return names.MIG_RESOURCE_PREFIX + profile.replace("+", ".")


def _by_parent(
    devices: tuple[Device, ...], changed: Callable[[Device, Device], Device]
) -> tuple[Device, ...]:
    """The devices, those changed that are parts of another one."""
    if not any(device.parent for device in devices):
        return devices
    whole = {device.uuid: device for device in devices}
    return tuple(
        changed(device, whole[device.parent]) if device.parent in whole else device for device in devices
    )


def _following(part: Device, whole: Device) -> dict[str, Any]:
    model = mig_model(whole.model, part.profile) if part.profile else whole.model
    return {"index": whole.index, "model": model, "numa": whole.numa}


def _brief(part: Device, whole: Device) -> Device:
    follows = _following(part, whole)
    unsaid = {key: blank for key, blank in _UNSAID.items() if getattr(part, key) == follows[key]}
    if (part.health, part.reason) == (whole.health, whole.reason):
        unsaid |= {"health": "healthy", "reason": None}
    return msgspec.structs.replace(part, **unsaid)


def _full(part: Device, whole: Device) -> Device:
    follows = _following(part, whole)
    said = {key: follows[key] for key, blank in _UNSAID.items() if getattr(part, key) == blank}
    if part.is_healthy and not whole.is_healthy:
        said |= {"health": whole.health, "reason": whole.reason}
    return msgspec.structs.replace(part, **said)
