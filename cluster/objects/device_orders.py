"""Administrators' orders about single GPUs of a node, as the booking server writes them on the Node.

The annotation ``names.DEVICE_ORDERS`` holds JSON, device -> its orders now::

    {"GPU-...": {"cordoned": "alice: the fan is loud"}, "GPU-...": {"cleared": "2026-11-27T16:00:00Z"}}

A device that is missing has no orders. The node agent obeys within a second.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from cluster import names
from cluster.objects.meta import UNREADABLE, Instant, Partial, ready
from cluster.objects.nodes import Node


class DeviceOrdersError(ValueError):
    """An annotation that cannot be read: its reader keeps the last readable one."""


@ready
class DeviceOrder(Partial, frozen=True):
    """The orders for one device."""

    cordoned: str | None = None
    """The administrator who cordoned it for new pods, and why; None if it is not cordoned."""
    cleared: Instant | None = None
    """When an administrator last cleared it. Each such order is carried out once."""


DeviceOrders = Mapping[str, DeviceOrder]
"""UUID of a GPU or a MIG device -> its orders."""

_ORDERS: Final = msgspec.json.Decoder(dict[str, DeviceOrder])


def encode_device_orders(orders: DeviceOrders) -> str:
    """The text of the annotation. Equal orders give equal text; without orders it is empty."""
    entries = {uuid: orders[uuid] for uuid in sorted(orders) if orders[uuid] != DeviceOrder()}
    return msgspec.json.encode(entries).decode() if entries else ""


def device_orders_of(node: Node) -> dict[str, DeviceOrder]:
    """The orders on a node; empty if there are none.

    Raises:
        DeviceOrdersError: the annotation cannot be read.
    """
    text = node.metadata.annotation(names.DEVICE_ORDERS)
    try:
        return _ORDERS.decode(text) if text else {}
    except UNREADABLE as error:
        raise DeviceOrdersError(f"The annotation {names.DEVICE_ORDERS} cannot be read: {error}.") from error
