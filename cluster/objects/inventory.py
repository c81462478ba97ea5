"""The inventory of a node: what its agent writes on the Node, and how it is read back.

The annotation ``names.INVENTORY`` holds JSON::

    {"devices": [{"uuid": "GPU-...", "index": 0, "model": "NVIDIA-A100-SXM4-80GB", "memory": 81920,
                  "numa": 0, "links": {"GPU-...": 12}},
                 {"uuid": "GPU-...", "index": 1, ..., "health": "unhealthy", "reason": "XID 79: ..."}]}

Memory is in MiB. What is not said is at its default: a device without ``health`` is healthy. A MIG device
carries ``parent`` (UUID of its GPU) and ``profile``.
"""

from typing import Literal

import msgspec

from cluster import names
from cluster.objects.meta import Partial
from cluster.objects.nodes import Node


class InventoryError(ValueError):
    """An inventory annotation that cannot be read: the node counts as one without GPUs until it can."""


class Device(Partial, frozen=True):
    """One GPU, or one MIG device, of a node."""

    uuid: str
    index: int
    model: str
    memory: int = 0
    """MiB; 0 where the driver does not say."""
    health: Literal["healthy", "unhealthy"] = "healthy"
    reason: str | None = None
    """A sentence for people, when unhealthy."""
    numa: int | None = None
    links: dict[str, int] | None = None
    """NVLinks to other GPUs of the node: UUID -> number of links."""
    parent: str | None = None
    profile: str | None = None

    @property
    def is_healthy(self) -> bool:
        """Whether the device may be given to a new pod."""
        return self.health == "healthy"


class Inventory(Partial, frozen=True):
    """All devices of a node, sick ones too: a known device is never left out."""

    devices: tuple[Device, ...] = ()


def encode_inventory(devices: tuple[Device, ...]) -> str:
    """The text of the annotation. Equal devices give equal text."""
    return msgspec.json.encode(Inventory(devices=devices)).decode()


def decode_inventory(text: str) -> tuple[Device, ...]:
    """The devices in an annotation's text.

    Raises:
        InventoryError: not an inventory.
    """
    try:
        return msgspec.json.decode(text, type=Inventory).devices
    except msgspec.MsgspecError as error:
        raise InventoryError(f"The annotation {names.INVENTORY} is not an inventory: {error}.") from error


def inventory_of(node: Node) -> tuple[Device, ...]:
    """The devices that the node's agent has published; none when it has not.

    Raises:
        InventoryError: the annotation cannot be read.
    """
    text = node.metadata.annotation(names.INVENTORY)
    return decode_inventory(text) if text else ()
