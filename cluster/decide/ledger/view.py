"""One node as decisions see it: immutable, made anew only when something on the node changes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from cluster.decide.ledger.amounts import WHOLE, Amounts, resource_of
from cluster.decide.ledger.claims import Claim
from cluster.objects.inventory import Device

ByModel = dict[str, tuple[Device, ...]]
"""Model -> devices, in the order of their index."""


@dataclass(frozen=True)
class NodeView:
    """The devices of a node and who holds them."""

    name: str
    devices: tuple[Device, ...] = ()
    published: bool = False
    """Whether the node's agent has written an inventory."""
    fault: str | None = None
    """Why what the agent has written cannot be used; the node gives nothing then."""
    claims: tuple[Claim, ...] = ()
    """What pods hold here, by uid. May name devices that the inventory does not know."""
    held: Amounts = field(default_factory=dict)
    """UUID -> thousandths held by all pods together; above ``WHOLE`` where two pods name one device."""
    unknown: dict[str, int] = field(default_factory=dict)
    """Resource -> devices held by pods of which nobody has said which they are."""

    @cached_property
    def all_by_model(self) -> dict[str, ByModel]:
        """Resource -> model -> every device that can be asked for, sick and held ones too."""
        parents = {device.parent for device in self.devices}
        return _grouped(device for device in self.devices if device.uuid not in parents)

    @cached_property
    def healthy_by_model(self) -> dict[str, ByModel]:
        """Resource -> model -> devices that work."""
        return _filtered(self.all_by_model, lambda device: device.is_healthy)

    @cached_property
    def free_by_model(self) -> dict[str, ByModel]:
        """Resource -> model -> devices that work and of which nobody holds anything."""
        return _filtered(self.healthy_by_model, lambda device: not self.held.get(device.uuid))

    @property
    def conflicts(self) -> tuple[str, ...]:
        """Devices of which more is held than there is (law L1 broken by somebody), by UUID."""
        return tuple(sorted(uuid for uuid, amount in self.held.items() if amount > WHOLE))

    def holders(self, uuid: str) -> tuple[str, ...]:
        """The pods that hold something of a device, by uid."""
        return tuple(claim.uid for claim in self.claims if uuid in claim.devices)


def view_of(
    name: str, *, devices: tuple[Device, ...] | None, fault: str | None, claims: tuple[Claim, ...]
) -> NodeView:
    """The view of a node.

    Args:
        name: the node's.
        devices: its inventory, None when there is none.
        fault: why its annotations cannot be used.
        claims: what pods hold on it, in the order of their uids.
    """
    held: Amounts = {}
    unknown: dict[str, int] = {}
    for claim in claims:
        for uuid, amount in claim.devices.items():
            held[uuid] = held.get(uuid, 0) + amount
        for resource, number in claim.unknown.items():
            unknown[resource] = unknown.get(resource, 0) + number
    return NodeView(
        name=name,
        devices=devices or (),
        published=devices is not None,
        fault=fault,
        claims=claims,
        held=held,
        unknown=unknown,
    )


def _grouped(devices: Iterable[Device]) -> dict[str, ByModel]:
    groups: dict[str, dict[str, list[Device]]] = {}
    for device in sorted(devices, key=lambda device: (device.index, device.uuid)):
        groups.setdefault(resource_of(device), {}).setdefault(device.model, []).append(device)
    return {
        resource: {model: tuple(found) for model, found in models.items()}
        for resource, models in groups.items()
    }


def _filtered(groups: dict[str, ByModel], keep: Callable[[Device], bool]) -> dict[str, ByModel]:
    return {
        resource: {model: tuple(filter(keep, devices)) for model, devices in models.items()}
        for resource, models in groups.items()
    }
