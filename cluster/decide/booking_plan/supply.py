"""What a node can give to bookings at one instant.

A device is available if it is healthy, its node is not gone, and it is free or its holder leaves when a
booked pod needs it: an opportunistic pod, a booked one (the device is part of its booking), or a terminating
one that does not hang. Held devices that have not been identified are subtracted from every model that the
node has (law L6: what is unknown is not guaranteed).

A node is gone when its agent has given no sign of life for an hour. Already after 75 seconds nothing is bound
there, but machines reboot and agents are replaced: that does not endanger a booking of next week.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from cluster import names
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.holdings import PodHoldings
from cluster.decide.protection import is_stuck, lasting_protection
from cluster.objects.bookings import Booking
from cluster.objects.inventory import Device, is_mixed, is_replica, is_unbookable_claim, resource_of
from cluster.objects.namespaces import Namespace
from cluster.objects.pods import Pod, is_terminating

GONE_AFTER: Final = 3600.0
"""Seconds without a sign of life of its agent after which a node's devices count as lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplySnapshot:
    """What is known of the cluster at one instant."""

    now: datetime
    views: Mapping[str, NodeView]
    pods: Mapping[str, Pod]
    """Uid -> living pod that asks for GPUs."""
    cover: Mapping[str, Booking]
    """Pod uid -> the booking that covers it."""
    namespaces: Mapping[str, Namespace]
    home: str
    """The product's own namespace."""
    quiet: frozenset[str] = frozenset()
    """Nodes whose agents have given no sign of life for some time: nothing is bound there (law L6)."""
    gone: frozenset[str] = frozenset()
    """Nodes whose agents have given no sign of life for ``GONE_AFTER``."""


@dataclass(frozen=True, slots=True)
class NodeSupply:
    """What one node has for bookings."""

    models: Mapping[str, str]
    """UUID -> model, of the available devices."""
    devices: Mapping[str, int]
    """Model -> number of available devices, for every model that the node has."""
    pins: Mapping[str, int]
    """Booking -> devices that its pods have here."""
    resources: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Model -> resource under which the node offers it."""

    def resource(self, model: str) -> str:
        """The resource under which the node offers a model."""
        return self.resources.get(model, names.GPU_RESOURCE)


def node_supply(view: NodeView, instant: SupplySnapshot) -> NodeSupply:
    """What a node has for bookings: nothing while its inventory cannot be read."""
    if view.fault:
        return NodeSupply({}, {}, {})
    known = tuple(bookable_devices(view.devices))
    lost = {uuid for holding in view.holdings if _stays(holding, instant) for uuid in holding.devices}
    models = {
        device.uuid: model
        for model, device in known
        if device.is_healthy and view.name not in instant.gone and device.uuid not in lost
    }
    counts = Counter(models.values())
    unknown = {model: view.unknown.get(resource_of(device), 0) for model, device in known}
    pinned: dict[str, set[str]] = {}
    for holding in view.holdings:
        if booking := instant.cover.get(holding.uid):
            # Several pods of a booking may have shares of one device.
            pinned.setdefault(booking.name, set()).update(holding.devices)
    pins = {booking: len(uuids) for booking, uuids in pinned.items()}
    devices = {model: max(0, counts[model] - unknown[model]) for model, _ in known}
    return NodeSupply(models, devices, pins, {model: resource_of(device) for model, device in known})


def bookable_devices(devices: tuple[Device, ...]) -> Iterator[tuple[str, Device]]:
    """(model in label form, device) of each GPU and MIG device of a node that a pod can have.

    GPUs that are cut into MIG devices are left out, and so is what nobody can guarantee: devices of claims
    that cannot be booked, and beside another plugin its replicas, and GPUs of a node where it gives out any
    of several models.
    """
    cut = {device.parent for device in devices if device.parent is not None}
    for device in devices:
        is_uncertain = is_unbookable_claim(device) or is_replica(device) or is_mixed(device)
        if device.uuid not in cut and not is_uncertain:
            yield names.model_label(device.model), device


def _stays(holding: PodHoldings, instant: SupplySnapshot) -> bool:
    """Whether the holder stays when a booked pod needs its devices."""
    pod = instant.pods.get(holding.uid)
    if pod is None:  # only the node's agent knows of it
        return True
    if is_terminating(pod):
        return is_stuck(pod, instant.now)
    if holding.uid in instant.cover:
        return False
    return lasting_protection(pod, holding, namespaces=instant.namespaces, home=instant.home) is not None
