"""One node as decisions see it: immutable, rebuilt only when something on the node changes."""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import msgspec

from cluster import names
from cluster.decide.ledger.amounts import NO_USE, WHOLE, DeviceUse, Holding, Room, Uses
from cluster.decide.ledger.holdings import PodHoldings
from cluster.decide.ledger.holds import OnHold
from cluster.decide.ledger.node_shape import Layout, NodeShape
from cluster.decide.ledger.nominated import Nominated
from cluster.decide.ledger.offers import Offer
from cluster.objects.inventory import OWNER_WAITS, Device, Sharing, resource_of

_OF_DEVICES: Final = frozenset(
    {
        "all_by_model",
        "healthy_by_model",
        "healthy_count",
        "is_numbered",
        "shareable_by_model",
        "shares_by_claims",
        "withheld",
    }
)
"""What is read from a node's devices alone: of two views with the same devices it is the same."""

ByModel = dict[str, tuple[Device, ...]]
"""Model -> devices, in the order of their index."""


@dataclass(frozen=True)
class NodeView:
    """The devices of a node and their holders."""

    name: str
    devices: tuple[Device, ...] = ()
    published: bool = False
    """Whether the node's agent has written an inventory."""
    fault: str | None = None
    """Why the agent's annotations cannot be used; the node then gives no devices. None if they can."""
    holdings: tuple[PodHoldings, ...] = ()
    """What pods hold here, sorted by uid. May name devices that the inventory does not have."""
    reservations: tuple[PodHoldings, ...] = ()
    """The same of reservation pods, which nobody has to wait for: they go with the last sharer."""
    closed: Mapping[str, Sharing] = field(default_factory=dict)
    """Numbered GPUs of which no share is given now -> what they would offer if a reservation pod had them."""
    held: Uses = field(default_factory=dict)
    """UUID -> what all pods together have of it; a device that nobody has is missing."""
    unknown: dict[str, int] = field(default_factory=dict)
    """Resource -> number of devices that pods hold and whose UUIDs are unknown; a slot counts as a GPU."""
    on_hold: OnHold = field(default_factory=dict)
    """UUID -> uid of the waiting pod for which a hold keeps it, even if another pod holds it now."""
    is_cordoned: bool = False
    nominated: tuple[Nominated, ...] = ()
    """Pods nominated for this node that have neither devices nor a hold yet, sorted by uid."""
    layout: Layout | None = field(default=None, compare=False, repr=False)
    """How its devices lie, where other views of the node know it, too."""

    @cached_property
    def all_by_model(self) -> dict[str, ByModel]:
        """Resource -> model -> every device that can be requested, including unhealthy and held ones."""
        parents = {device.parent for device in self.devices}
        return _grouped(device for device in self.devices if device.uuid not in parents)

    @cached_property
    def healthy_by_model(self) -> dict[str, ByModel]:
        """Resource -> model -> healthy devices, free or not."""
        return _filtered(self.all_by_model, lambda device: device.is_healthy)

    @cached_property
    def withheld(self) -> frozenset[str]:
        """Devices that are given to nobody anew while the node waits to change who gives them out."""
        return frozenset(device.uuid for device in self.devices if device.reason == OWNER_WAITS)

    @cached_property
    def healthy_count(self) -> dict[str, int]:
        """Resource -> number of healthy devices, free or not."""
        return {
            resource: sum(map(len, models.values())) for resource, models in self.healthy_by_model.items()
        }

    @cached_property
    def unheld_by_model(self) -> dict[str, ByModel]:
        """Resource -> model -> healthy devices that no pod holds, including those on hold."""
        return _filtered(self.healthy_by_model, lambda device: self.is_unheld(device.uuid))

    @cached_property
    def free_by_model(self) -> dict[str, ByModel]:
        """Resource -> model -> healthy devices that no pod holds and that are not on hold."""
        if not self.on_hold:
            return self.unheld_by_model
        return _filtered(self.unheld_by_model, lambda device: device.uuid not in self.on_hold)

    @cached_property
    def is_numbered(self) -> bool:
        """Whether its kubelet chooses the GPUs: another plugin gives them out, and ours are a count."""
        return any(device.numbered for device in self.devices)

    @cached_property
    def reserved(self) -> frozenset[str]:
        """Numbered GPUs that a reservation pod has."""
        return frozenset(uuid for each in self.reservations for uuid in each.devices)

    @cached_property
    def opened(self) -> dict[str, str]:
        """Numbered GPU that is open for shares -> the UUID of the GPU behind it."""
        return _opened(self.reservations)

    @property
    def opens(self) -> bool:
        """Whether its numbered GPUs can be opened for shares, or are open."""
        return bool(self.closed or self.opened)

    @cached_property
    def openable(self) -> Offer:
        """What free numbered GPUs would offer to shares if reservation pods opened them."""
        return self._as_opened(self.free_by_model)

    @cached_property
    def emptied(self) -> Offer:
        """What all its healthy numbered GPUs would offer if they were open, and nobody had any of them."""
        if not self.closed:
            return self.healthy_offer
        closed, opened = self._as_opened(self.healthy_by_model).rooms, self.healthy_offer.rooms
        return Offer({model: (*opened.get(model, ()), *found) for model, found in closed.items()})

    def _as_opened(self, groups: Mapping[str, ByModel]) -> Offer:
        found: dict[str, list[tuple[Device, Room]]] = {}
        for model, devices in groups.get(names.GPU_RESOURCE, {}).items() if self.closed else ():
            for device in devices:
                if offer := self.closed.get(device.uuid):
                    opened = msgspec.structs.replace(device, share=offer)
                    found.setdefault(model, []).append((opened, NO_USE.room_on(opened)))
        return Offer({model: tuple(rooms) for model, rooms in found.items()})

    @cached_property
    def orphaned(self) -> ByModel:
        """Model -> healthy numbered GPUs of which pods have shares though no reservation pod has them."""
        groups = self.healthy_by_model.get(names.GPU_RESOURCE, {}) if self.is_numbered else {}
        return {
            model: tuple(
                d for d in found if d.uuid not in self.reserved and self.held.get(d.uuid, NO_USE).shares
            )
            for model, found in groups.items()
        }

    @cached_property
    def open_by_model(self) -> dict[str, tuple[tuple[Device, Room], ...]]:
        """Model -> healthy GPUs that are held in shares, with what is left of each: the least room first."""
        found: dict[str, list[tuple[Device, Room]]] = {}
        for uuid, use in self.held.items():
            if use.shares and not use.whole and (device := self._shareable.get(uuid)):
                found.setdefault(device.model, []).append((device, use.room_on(device)))
        return {model: tuple(sorted(rooms, key=_room_and_index)) for model, rooms in sorted(found.items())}

    @cached_property
    def shares_by_claims(self) -> bool:
        """Whether claims give its GPUs in shares."""
        groups = self.all_by_model.get(names.CLAIM_RESOURCE, {}).values()
        return any(device.share and device.share.slots for found in groups for device in found)

    @cached_property
    def shareable_by_model(self) -> ByModel:
        """Model -> every GPU that is offered in shares, including unhealthy and held ones."""
        everything = self.all_by_model
        groups = {
            **everything.get(names.GPU_RESOURCE, {}),
            **(everything[names.CLAIM_RESOURCE] if self.shares_by_claims else {}),
        }
        return {
            model: tuple(device for device in found if device.share and device.share.slots)
            for model, found in groups.items()
        }

    @cached_property
    def empty_offer(self) -> Offer:
        """What the node's GPUs would offer to shares if they were healthy and nobody had any of them."""
        return Offer(
            {
                model: tuple((device, NO_USE.room_on(device)) for device in found)
                for model, found in self.shareable_by_model.items()
            }
        )

    @cached_property
    def healthy_offer(self) -> Offer:
        """What its healthy GPUs would offer if nobody had any of them."""
        if len(self._shareable) == sum(map(len, self.shareable_by_model.values())):
            return self.empty_offer
        rooms = self.empty_offer.rooms
        return Offer(
            {model: tuple(one for one in found if one[0].is_healthy) for model, found in rooms.items()}
        )

    @cached_property
    def offer(self) -> Offer:
        """What its healthy GPUs offer now, including those on hold."""
        return Offer(
            {
                model: tuple((device, self.room(device)) for device in found if device.is_healthy)
                for model, found in self.shareable_by_model.items()
            }
        )

    @cached_property
    def unreserved_offer(self) -> Offer:
        """What its healthy GPUs offer now, without those on hold: to pods without a hold."""
        if not self.on_hold:
            return self.offer
        return Offer(
            {
                model: tuple(one for one in found if one[0].uuid not in self.on_hold)
                for model, found in self.offer.rooms.items()
            }
        )

    @cached_property
    def _shareable(self) -> dict[str, Device]:
        """UUID -> healthy whole GPU that may be given in shares."""
        groups = self.shareable_by_model.values()
        return {device.uuid: device for found in groups for device in found if device.is_healthy}

    @cached_property
    def models(self) -> dict[str, str]:
        """UUID -> model of every device of the node."""
        return {device.uuid: device.model for device in self.devices}

    @property
    def ordinals(self) -> dict[str, int]:
        """UUID -> position of every device in the order of index and UUID."""
        return self._layout.ordinals

    @property
    def shape(self) -> NodeShape:
        """Its devices and their links without UUIDs: the same object for nodes that are built alike."""
        return self._layout.shape

    @cached_property
    def _layout(self) -> Layout:
        return self.layout or Layout(self.devices)

    @property
    def conflicts(self) -> tuple[str, ...]:
        """UUIDs of devices of which more is held than there is (law L1 is broken), sorted."""
        odd = [(uuid, use) for uuid, use in self.held.items() if use is not WHOLE]
        if not odd:
            return ()
        devices = {device.uuid: device for device in self.devices}
        return tuple(sorted(uuid for uuid, use in odd if use.is_conflict(devices.get(uuid))))

    def room(self, device: Device) -> Room:
        """What is left of one of the node's devices, whether it is healthy or on hold or not."""
        return self.held.get(device.uuid, NO_USE).room_on(device)

    def is_unheld(self, uuid: str) -> bool:
        """Whether no pod has any of a device: there is room for a pod that wants all of it."""
        return not self.held.get(uuid)

    def without(self, uid: str) -> "NodeView":
        """The node as it would be if this pod held nothing there."""
        return self.without_pods({uid})

    def without_pods(self, uids: AbstractSet[str]) -> "NodeView":
        """The node as it would be if none of these pods held anything there."""
        holdings = tuple(each for each in self.holdings if each.uid not in uids)
        if len(holdings) == len(self.holdings):
            return self
        held, unknown = _summed((*holdings, *self.reservations))
        return replace(self, holdings=holdings, held=held, unknown=unknown)

    def holding(self, parts: Iterable[Holding]) -> "NodeView":
        """The node as it would be if another pod held these devices and shares, too."""
        held = dict(self.held)
        for part in parts:
            held[part.device] = _with(held.get(part.device), part)
        if held == self.held:
            return self
        found = replace(self, held=held)
        found.take_over(self)
        return found

    def take_over(self, before: "NodeView") -> None:
        """Take from another view of the node what was read from its devices alone, if they are the same."""
        if self.devices == before.devices:
            vars(self).update({name: known for name, known in vars(before).items() if name in _OF_DEVICES})

    def holders(self, uuid: str) -> tuple[str, ...]:
        """Uids of the pods that hold a device or a share of it, sorted."""
        return tuple(each.uid for each in self.holdings if uuid in each.devices)


def view_of(
    name: str,
    *,
    devices: tuple[Device, ...] | None,
    fault: str | None,
    holdings: tuple[PodHoldings, ...],
    on_hold: OnHold,
    is_cordoned: bool = False,
    nominated: tuple[Nominated, ...] = (),
    layout: Layout | None = None,
) -> NodeView:
    """The view of a node.

    Args:
        name: the node's name.
        devices: its inventory; None if there is none.
        fault: why its annotations cannot be used.
        holdings: what pods hold on it, sorted by uid; those of reservation pods, too.
        on_hold: its devices that are on hold.
        is_cordoned: whether the node is cordoned.
        nominated: the pods nominated for it, sorted by uid.
        layout: that of its inventory, if it is known; else it is found out when somebody asks.
    """
    held, unknown = _summed(holdings)
    reservations = tuple(each for each in holdings if each.reservation)
    closed = _closed(devices or (), reservations)
    return NodeView(
        name=name,
        devices=tuple(
            msgspec.structs.replace(one, share=None) if one.uuid in closed else one for one in devices or ()
        ),
        published=devices is not None,
        fault=fault,
        holdings=tuple(each for each in holdings if not each.reservation) if reservations else holdings,
        reservations=reservations,
        closed=closed,
        held=held,
        unknown=unknown,
        on_hold=on_hold,
        is_cordoned=is_cordoned,
        nominated=nominated,
        layout=layout,
    )


def _opened(reservations: Iterable[PodHoldings]) -> dict[str, str]:
    return {
        each.reservation.number: each.reservation.opened
        for each in reservations
        if each.reservation and each.reservation.opened and each.reservation.number in each.devices
    }


def _closed(devices: Iterable[Device], reservations: Iterable[PodHoldings]) -> dict[str, Sharing]:
    opened = _opened(reservations)
    return {one.uuid: one.share for one in devices if one.numbered and one.share and one.uuid not in opened}


def _summed(holdings: Iterable[PodHoldings]) -> tuple[dict[str, DeviceUse], dict[str, int]]:
    """The sums of ``NodeView.held`` and ``NodeView.unknown``."""
    held: dict[str, DeviceUse] = {}
    unknown: dict[str, int] = {}
    by_claims: set[tuple[str, str]] = set()
    for each in holdings:
        for uuid, part in each.devices.items():
            if part.claim and (part.claim, uuid) in by_claims:
                continue  # another pod of the same claim
            by_claims.add((part.claim, uuid))
            held[uuid] = _with(held.get(uuid), part)
        for resource, number in each.unknown.items():
            unknown[resource] = unknown.get(resource, 0) + number
            if resource == names.SHARED_RESOURCE:  # each may be of another GPU that seems to be free
                unknown[names.GPU_RESOURCE] = unknown.get(names.GPU_RESOURCE, 0) + number
    return held, unknown


def _with(use: DeviceUse | None, part: Holding) -> DeviceUse:
    return WHOLE if use is None and part.mode is None else (use or NO_USE).plus(part)


def _room_and_index(found: tuple[Device, Room]) -> tuple[int, int, str]:
    device, room = found
    return room.memory, device.index, device.uuid


def _grouped(devices: Iterable[Device]) -> dict[str, ByModel]:
    groups: dict[str, dict[str, list[Device]]] = {}
    for device in sorted(devices, key=_index_and_uuid):
        groups.setdefault(resource_of(device), {}).setdefault(device.model, []).append(device)
    return {
        resource: {model: tuple(found) for model, found in models.items()}
        for resource, models in groups.items()
    }


def _index_and_uuid(device: Device) -> tuple[int, str]:
    return device.index, device.uuid


def _filtered(groups: dict[str, ByModel], keep: Callable[[Device], bool]) -> dict[str, ByModel]:
    return {
        resource: {model: tuple(filter(keep, devices)) for model, devices in models.items()}
        for resource, models in groups.items()
    }
