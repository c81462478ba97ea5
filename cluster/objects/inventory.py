"""The inventory of a node: how its agent writes it on the Node, and how it is read back.

The annotation ``names.INVENTORY`` holds JSON::

    {"devices": [{"uuid": "GPU-...", "index": 0, "model": "NVIDIA-A100-SXM4-80GB", "memory": 81920,
                  "numa": 0, "links": {"GPU-...": 12}},
                 {"uuid": "GPU-...", "index": 1, ..., "health": "unhealthy", "reason": "XID 79: ..."}]}

Memory is in MiB. A missing value has its default: a device without ``health`` is healthy. A MIG device has
``parent`` (UUID of its GPU) and ``profile``, and also ``resource`` if the kubelet does not know it under the
name of its profile. Values that follow from its GPU are left out (index, model, NUMA node, and the health of
an unhealthy GPU), which more than halves the text for sixteen GPUs of seven MIG devices each::

    {"uuid": "MIG-...", "memory": 9728, "parent": "GPU-...", "profile": "1g.10gb"}

On a node whose GPUs are given by claims that can be booked, each also says under which name:
``"claimedAs": "gpu-0"``.

A GPU that can be shared says so: ``"share": {"slots": 16, "memory": 80441}``.

Where another device plugin is in charge, the kubelet chooses which GPU a pod gets. There a device is one of a
count: ``"numbered": true``, with the node's name and a number in place of a UUID. If the GPUs are of several
models, each has the model ``names.MIXED_MODEL`` and the least memory of all.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from sys import intern
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec.structs import force_setattr

from cluster import names
from cluster.objects.meta import UNREADABLE, Partial, Versioned, ready
from cluster.objects.nodes import Node

LONGEST_LABEL: Final = 63
"""Characters of a label's value."""
MIG_UUID: Final = "MIG-"
"""Prefix of a MIG device's UUID."""
OWNER_WAITS: Final = (
    "The node is to give its GPUs in another way, once nobody holds a device that this could give away"
)
"""The reason of devices that are given to nobody anew while their node waits to change who gives them out.

It has no names, since each change is written to the Node."""
_NO_LINKS: Final[Mapping[str, int]] = {}
_REMEMBERED: Final = 256
"""Names of models in label form that are kept: more than a cluster has."""
_BLANKS: Final[dict[str, Any]] = {"index": -1, "model": "", "numa": None}
"""The values that a MIG device may inherit from its GPU, and what each is when it is left out."""


T = TypeVar("T")

SharingMode = Literal["time-slice", "mps"]
"""How the pods on one device share it: in turns, or at one time under NVIDIA's Multi-Process Service."""


class InventoryError(ValueError):
    """An inventory annotation that cannot be read: the node counts as one without GPUs until it can."""


class Sharing(Partial, frozen=True):
    """What a GPU offers to pods that share it."""

    slots: int = 0
    """How many pods' containers can have a share of it at one time."""
    memory: int = 0
    """MiB for all shares together: less than the GPU has, since the driver needs some."""
    modes: tuple[SharingMode, ...] = ("time-slice",)


class Device(Partial, frozen=True):
    """One GPU, or one MIG device, of a node."""

    uuid: str
    index: int = -1
    """The GPU's number; -1 if it is not known any more."""
    model: str = ""
    memory: int = 0
    """MiB; 0 if the driver does not report it."""
    health: Literal["healthy", "unhealthy"] = "healthy"
    reason: str | None = None
    """Why it is unhealthy, for people."""
    numa: int | None = None
    links: dict[str, int] | None = None
    """NVLinks to other GPUs of the node: UUID -> number of links."""
    parent: str | None = None
    profile: str | None = None
    resource: str | None = None
    """The resource under which it is requested, if that does not follow from the profile or its absence."""
    share: Sharing | None = None
    """What it offers to pods that share it; None if it is given whole only."""
    claimed_as: str | None = None
    """Its name in the node's ResourceSlices, where claims give it and can be booked."""
    numbered: bool = False
    """Whether it is one of a count: the kubelet chooses which GPU its pod really gets."""

    @property
    def is_healthy(self) -> bool:
        """Whether the device may be given to a new pod."""
        return self.health == "healthy"


def numbered_uuid(node: str, index: int, part: int | None = None) -> str:
    """The id of a numbered GPU, or of a part of it: no two of a cluster have the same.

    >>> numbered_uuid("node-a", 3), numbered_uuid("node-a", 3, 0)
    ('node-a-3', 'node-a-3.0')
    """
    return f"{node}-{index}" if part is None else f"{node}-{index}.{part}"


def is_replica(device: Device) -> bool:
    """Whether it is one of the turns that another plugin gives on a GPU: nobody can book it."""
    return device.numbered and device.model.endswith(names.SHARED_MODEL)


def is_mixed(device: Device) -> bool:
    """Whether the kubelet may give its pod a GPU of any of several models: nobody can ask for one of them."""
    return device.numbered and device.model in (names.MIXED_MODEL, names.MIXED_REPLICA)


@ready
class Inventory(Versioned, frozen=True, kw_only=True):
    """All devices of a node, including unhealthy ones: a known device is never left out."""

    devices: tuple[Device, ...] = ()


def encode_inventory(devices: tuple[Device, ...]) -> str:
    """The text of the annotation. Equal devices give equal text."""
    return msgspec.json.encode(Inventory(devices=_by_parent(devices, _brief))).decode()


def decode_inventory(text: str) -> tuple[Device, ...]:
    """The devices in an annotation's text.

    Raises:
        InventoryError: the text is not an inventory.
    """
    try:
        devices = _by_parent(msgspec.json.decode(text, type=Inventory).devices, _full)
    except UNREADABLE as error:
        raise InventoryError(f"The annotation {names.INVENTORY} is not an inventory: {error}.") from error
    if nameless := [device.uuid for device in devices if not device.model]:
        raise InventoryError(f"The annotation {names.INVENTORY} says no model of {nameless[0]}.")
    uuids = {uuid: uuid for uuid in (intern(device.uuid) for device in devices)}
    return tuple(_sharing(_labelled(device), uuids) for device in devices)


def inventory_of(node: Node) -> tuple[Device, ...]:
    """The devices that the node's agent has published; none if it has not published any.

    Raises:
        InventoryError: the annotation cannot be read.
    """
    text = node.metadata.annotation(names.INVENTORY)
    return decode_inventory(text) if text else ()


def resource_of(device: Device) -> str:
    """The resource under which a device is requested.

    A MIG device with the profile ``1g.5gb+me`` is the resource ``nvidia.com/mig-1g.5gb.me`` (a resource name
    cannot have ``+``). Source: NVIDIA k8s-device-plugin, strategy ``mixed``. With the strategy ``single`` the
    agent writes that it is requested as a GPU.
    """
    if device.resource is not None:
        return device.resource
    if device.profile is None:
        return names.GPU_RESOURCE
    return _mig_resource(device.profile)


def as_of_a_plugin(device: Device) -> Device:
    """A device that claims give, as it is when a device plugin gives it."""
    model = device.model.replace(names.CLAIMED_MODEL, "", 1)
    return msgspec.structs.replace(device, model=model, resource=None, claimed_as=None)


def possible_resources(device: Device) -> tuple[str, ...]:
    """The resources for which a pod can have been given the device.

    Two for a MIG device: the strategy may have changed since a pod that still runs was started.
    """
    if device.profile is None:
        return (resource_of(device),)
    return (_mig_resource(device.profile), names.GPU_RESOURCE)


def nvlinks(one: Device, other: Device) -> int:
    """NVLinks between two GPUs of a node, whichever of them reports them."""
    return max((one.links or _NO_LINKS).get(other.uuid, 0), (other.links or _NO_LINKS).get(one.uuid, 0))


def nvlinks_to(device: Device, others: Iterable[Device]) -> int:
    """NVLinks between a GPU and others of its node; it may be one of them."""
    own, mine, found = device.uuid, device.links or _NO_LINKS, 0
    for other in others:
        if (uuid := other.uuid) != own:
            found += max(mine.get(uuid, 0), (other.links or _NO_LINKS).get(own, 0))
    return found


def is_unbookable_claim(device: Device) -> bool:
    """Whether claims give it that cannot be booked: nobody knows who has it."""
    return device.resource == names.CLAIM_RESOURCE and device.claimed_as is None


def mig_model(model: str, profile: str) -> str:
    """The model of a MIG device, as NVIDIA's feature discovery names it.

    >>> mig_model("NVIDIA-A100-SXM4-80GB", "1g.10gb")
    'NVIDIA-A100-SXM4-80GB-MIG-1g.10gb'
    """
    return _label(f"{model}{names.MIG_MODEL}{profile}")


def spellings(device: Device) -> frozenset[str]:
    """Everything by which a pod may ask for the device's model, in label form.

    Its model, the beginning of it that feature discovery's label has room for, and its MIG profile.
    """
    return _spellings(device.model, device.profile or "")


def spellings_of(model: str) -> frozenset[str]:
    """Everything by which a pod may ask for devices of a model; see ``spellings``."""
    return _spellings(model, names.mig_profile(model) or "")


@lru_cache(maxsize=_REMEMBERED)
def _spellings(model: str, profile: str) -> frozenset[str]:
    bare = model.replace(names.CLAIMED_MODEL, "", 1)
    found = (model, bare, model[:LONGEST_LABEL].strip("-_."), names.model_label(profile))
    return frozenset(each for each in found if each)


_label: Final = lru_cache(maxsize=_REMEMBERED)(names.model_label)


@lru_cache(maxsize=_REMEMBERED)
def _same(value: T) -> T:
    """The value, or an equal one that came earlier."""
    return value


def _labelled(device: Device) -> Device:
    """The device with its model in label form; an earlier agent wrote some characters more."""
    label = _label(device.model)
    return device if label == device.model else msgspec.structs.replace(device, model=label)


def _sharing(device: Device, uuids: Mapping[str, str]) -> Device:
    """The device itself, which shares with others what is equal: model, memory, offer, UUIDs of links."""
    force_setattr(device, "uuid", uuids[device.uuid])
    force_setattr(device, "model", _label(device.model))
    force_setattr(device, "memory", _same(device.memory))
    force_setattr(device, "share", _same(device.share))
    if device.links:
        links = {uuids.get(uuid, uuid): count for uuid, count in device.links.items()}
        force_setattr(device, "links", links)
    return device


def _mig_resource(profile: str) -> str:
    return names.MIG_RESOURCE_PREFIX + profile.replace("+", ".")


def _by_parent(
    devices: tuple[Device, ...], changed: Callable[[Device, Device], Device]
) -> tuple[Device, ...]:
    """The devices, with ``changed`` applied to those that are parts of another one."""
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
    fields = {key: blank for key, blank in _BLANKS.items() if getattr(part, key) == follows[key]}
    if (part.health, part.reason) == (whole.health, whole.reason):
        fields |= {"health": "healthy", "reason": None}
    return msgspec.structs.replace(part, **fields)


def _full(part: Device, whole: Device) -> Device:
    follows = _following(part, whole)
    fields = {key: follows[key] for key, blank in _BLANKS.items() if getattr(part, key) == blank}
    if part.is_healthy and not whole.is_healthy:
        fields |= {"health": whole.health, "reason": whole.reason}
    return msgspec.structs.replace(part, **fields)
