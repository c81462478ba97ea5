"""Orders about single GPUs, written on their Node: the node's agent carries them out within a second."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import structlog

from booking.server.errors import ClusterError, UnknownGpuError
from booking.server.service.context import GpuOrder, whole
from cluster import names
from cluster.kube.errors import ApiError, Conflict, Forbidden, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import NODES
from cluster.objects.device_orders import (
    DeviceOrder,
    DeviceOrdersError,
    device_orders_of,
    encode_device_orders,
)
from cluster.objects.inventory import Device, InventoryError, inventory_of
from cluster.objects.nodes import Node

log = structlog.get_logger(__name__)

_TRIES: Final = 5
"""Attempts at one write: the Node's agent and kubelet write on it as well."""


class NodeGpus:
    """Implements ``booking.server.service.context.GpuOrders`` with the API server."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    def order(
        self, node: str, gpu: str, order: GpuOrder, *, message: str, at: datetime, dry_run: bool = False
    ) -> str:
        """See ``GpuOrders``."""
        try:
            for _ in range(_TRIES):
                try:
                    return self._written(node, gpu, order, message=message, at=at, dry_run=dry_run)
                except Conflict:
                    continue
        except NotFound as error:
            raise UnknownGpuError(f"There is no node {node}.") from error
        except Forbidden as error:
            raise ClusterError(f"The booking server may not order that: {error.message}") from error
        except ApiError as error:
            log.warning("a device order could not be written", node=node, gpu=gpu, error=str(error))
            raise ClusterError(
                "The Kubernetes API server does not answer as it should: nothing is known of the order; "
                "give it again."
            ) from error
        raise ClusterError(f"The Node {node} is being changed all the time: give the order again.")

    def _written(
        self, node: str, gpu: str, order: GpuOrder, *, message: str, at: datetime, dry_run: bool
    ) -> str:
        found = self._kube.get(NODES, node)
        uuid = _named(found, gpu)
        orders = _orders(found)
        orders[uuid] = ordered(orders.get(uuid, DeviceOrder()), order, message=message, at=whole(at))
        metadata = {
            "resourceVersion": found.metadata.resource_version,
            "annotations": {names.DEVICE_ORDERS: encode_device_orders(orders) or None},
        }
        self._kube.patch(NODES, node, {"metadata": metadata}, dry_run=dry_run)
        return uuid


def ordered(before: DeviceOrder, order: GpuOrder, *, message: str, at: datetime) -> DeviceOrder:
    """What counts for a device after an order: pure."""
    match order:
        case "cordon":
            return DeviceOrder(cordoned=message, cleared=before.cleared)
        case "uncordon":
            return DeviceOrder(cleared=before.cleared)
        case "clear":
            return DeviceOrder(cordoned=before.cordoned, cleared=at)


def uuid_of(devices: Iterable[Device], gpu: str) -> str | None:
    """The device that is meant: by its UUID, or as a whole GPU by its number; None for none."""
    for device in devices:
        if gpu == device.uuid or (device.parent is None and gpu == str(device.index)):
            return device.uuid
    return None


def _named(node: Node, gpu: str) -> str:
    try:
        devices = inventory_of(node)
    except InventoryError as error:
        raise UnknownGpuError(f"The GPUs of {node.metadata.name} are not known: {error}") from error
    uuid = uuid_of(devices, gpu)
    if uuid is None:
        known = ", ".join(f"{device.index} ({device.uuid})" for device in devices if device.parent is None)
        raise UnknownGpuError(f"{node.metadata.name} has no GPU {gpu}; it has {known or 'none'}.")
    return uuid


def _orders(node: Node) -> dict[str, DeviceOrder]:
    """The orders on a Node; an unreadable annotation is obeyed by no component: it is overwritten."""
    try:
        return device_orders_of(node)
    except DeviceOrdersError as error:
        log.warning(
            "the device orders of a node cannot be read and are replaced",
            node=node.metadata.name,
            error=str(error),
        )
        return {}
