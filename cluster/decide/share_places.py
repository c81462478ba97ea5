"""Which GPUs the shares of a booked pod may be on, so that bookings have no more GPUs than planned (law L5).

Shares that a booking of whole GPUs covers are on GPUs of that booking alone: one that has a share of it is
used before another one is opened, and no other booking's pod is put there. Bookings of shares have lanes: the
plan says which of them are on one GPU together. A GPU is a lane's as long as a pod has a booked share of that
lane there. Pods without a booking may have shares of all of these GPUs: they leave when a booked one needs
the room.

Pure: what is booked where follows from the pods that are covered, at each instant anew.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from cluster import names
from cluster.decide.available import shares_on
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.amounts import NO_USE, Holding, Room
from cluster.decide.ledger.holdings import PodHoldings
from cluster.decide.protection import lasting_protection
from cluster.decide.request import GpuRequest, gpu_request_of
from cluster.decide.shares import place
from cluster.objects.bookings import Booking
from cluster.objects.hold import Hold
from cluster.objects.inventory import Device
from cluster.objects.namespaces import Namespace
from cluster.objects.pods import Pod, is_terminating
from cluster.objects.share_request import DEFAULT_MODE, requested_mode

Lane = tuple[str, str, int]
"""Model, booking, number: the booking is empty for a lane that several may have, the number is ``WHOLE`` for
the devices of a booking of whole ones."""
WHOLE: Final = -1


@dataclass(frozen=True, slots=True)
class _Seat:
    """A covered pod that has shares of devices, or for which a hold keeps them."""

    uid: str
    booking: Booking
    devices: Mapping[str, int]
    """UUID -> how many shares it has of that device."""


@dataclass(frozen=True)
class SharePlaces:
    """The devices of which bookings have shares at one instant."""

    views: Mapping[str, NodeView]
    """Nodes: those with covered pods at least, and those of the holds."""
    cover: Mapping[str, Booking]
    """Pod uid -> the booking that covers it."""
    holds: Mapping[str, Hold] = field(default_factory=dict)
    """Uid of a waiting pod -> what is kept for it."""
    pods: Mapping[str, Pod] = field(default_factory=dict)
    """Uid -> living pod."""
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    home: str = names.NAMESPACE
    """The product's own namespace."""

    def of_pods_alone(self) -> "SharePlaces":
        """The same with fewer nodes: those that covered pods and holds name."""
        where = {pod.spec.node_name for uid in self.cover if (pod := self.pods.get(uid))}
        where.update(hold.node for hold in self.holds.values())
        return replace(self, views={node: self.views[node] for node in where if node and node in self.views})

    def confined(self, request: GpuRequest, booking: Booking | None) -> GpuRequest:
        """The request of a booked pod, with the devices of which it may have shares; any other as it is."""
        if request.share is None or booking is None:
            return request
        if request.uid in self.holds:
            others_holds = {uid: hold for uid, hold in self.holds.items() if uid != request.uid}
            return replace(self, holds=others_holds).confined(request, booking)
        ours = self._ours(request.uid, booking)
        others = frozenset(uuid for uuid in self._lane_of if uuid not in ours)
        if ours and any(self._fits(request, view, ours) for view in self._views_with(ours)):
            return replace(request, only=ours, never=frozenset())
        return replace(request, only=None, never=others)

    def may_begin(self, uid: str, booking: Booking, holding: PodHoldings) -> bool:
        """Whether a booking may cover a pod where it has its shares, beside those that are covered."""
        ours = self._ours(uid, booking)
        new = {uuid for uuid in holding.devices if uuid not in self._lane_of}
        if not ours.issuperset(holding.devices.keys() - new):
            return False
        return booking.spec.memory is None or len(new) <= self._unopened(uid, booking)

    # --- inside --------------------------------------------------------------------------------------
    def _ours(self, uid: str, booking: Booking) -> frozenset[str]:
        """Devices on which the pod's shares are expected: there its booking has places that no pod uses."""
        if booking.spec.memory is None:
            return frozenset(uuid for uuid, lane in self._lane_of.items() if lane == _whole(booking))
        left = self._left(uid, booking)
        return frozenset(uuid for uuid, lane in self._lane_of.items() if left.get(lane, 0) > 0)

    def _unopened(self, uid: str, booking: Booking) -> int:
        """How many devices the lanes of a booking of shares still lack."""
        opened = set(self._lane_of.values())
        left = self._left(uid, booking)
        return sum(lane not in opened for lane in left)

    def _left(self, uid: str, booking: Booking) -> dict[Lane, int]:
        """Lane -> how many shares of it the booking has that no other covered pod uses."""
        left = Counter(_lanes(booking))
        for seat in self._seats:
            if seat.booking.name == booking.name and seat.uid != uid:
                for uuid, count in seat.devices.items():
                    left[self._lane_of[uuid]] -= count
        return {lane: count for lane, count in left.items() if count > 0}

    def _fits(self, request: GpuRequest, view: NodeView, ours: frozenset[str]) -> bool:
        """Whether the pod fits on these devices once everybody has left who may be evicted."""
        if not shares_on(request, view):
            return False
        found: dict[str, list[tuple[Device, Room]]] = {}
        for model, devices in view.shareable_by_model.items():
            for device in devices:
                if device.uuid in ours and device.is_healthy and request.selector.takes(device):
                    found.setdefault(model, []).append((device, self._room(view, device)))
        return place(request, {model: tuple(rooms) for model, rooms in found.items()}) is not None

    def _room(self, view: NodeView, device: Device) -> Room:
        use, claims = NO_USE, set[str]()
        for holding in view.holdings:
            part = holding.devices.get(device.uuid)
            if part and part.claim not in claims and self._stays(holding):
                claims.update(filter(None, (part.claim,)))
                use = use.plus(part)
        for uid, hold in self.holds.items():
            if hold.memory is not None and uid in self.cover and device.uuid in hold.devices:
                pod = self.pods.get(uid)
                wanted = requested_mode(pod) if pod else None
                mode = wanted or next(iter(use.modes), DEFAULT_MODE)
                use = use.plus(Holding(device.uuid, hold.memory, mode=mode))
        return use.room_on(device)

    def _stays(self, holding: PodHoldings) -> bool:
        """Whether a pod stays when a booked one needs its room."""
        pod = self.pods.get(holding.uid)
        if holding.uid in self.cover or pod is None:
            return True
        protection = lasting_protection(pod, holding, namespaces=self.namespaces, home=self.home)
        return not is_terminating(pod) and protection is not None

    def _views_with(self, uuids: frozenset[str]) -> Iterator[NodeView]:
        nodes = {
            node for node, seats in self._by_node.items() for seat in seats if seat.devices.keys() & uuids
        }
        return (self.views[node] for node in sorted(nodes) if node in self.views)

    @cached_property
    def _by_node(self) -> Mapping[str, list[_Seat]]:
        """Node -> the covered pods with shares there."""
        found: dict[str, list[_Seat]] = {}
        for name, view in self.views.items():
            of_claims: set[tuple[str, str]] = set()
            for holding in view.holdings:
                booking, parts = self.cover.get(holding.uid), holding.devices.values()
                new = [one for one in parts if not one.claim or (one.claim, one.device) not in of_claims]
                if booking and (shared := _shared(new)):
                    of_claims.update((one.claim, one.device) for one in new)
                    found.setdefault(name, []).append(_Seat(holding.uid, booking, shared))
        for uid, hold in self.holds.items():
            booking = self.cover.get(uid)
            if booking and hold.memory is not None:
                found.setdefault(hold.node, []).append(_Seat(uid, booking, self._expected(uid, hold)))
        return found

    def _expected(self, uid: str, hold: Hold) -> Mapping[str, int]:
        """How many shares a waiting pod will have of each device that is kept for it."""
        pod, each = self.pods.get(uid), 1
        if pod and len(hold.devices) == 1:
            each = max(1, gpu_request_of(pod).devices)
        return dict.fromkeys(hold.devices, each)

    @cached_property
    def _seats(self) -> list[_Seat]:
        return [seat for seats in self._by_node.values() for seat in seats]

    @cached_property
    def _lane_of(self) -> Mapping[str, Lane]:
        """Device of which a booking has a share -> its lane."""
        users: dict[str, list[tuple[Booking, int]]] = {}
        for seat in self._seats:
            for uuid, count in seat.devices.items():
                users.setdefault(uuid, []).append((seat.booking, count))
        possible = {uuid: _common(theirs) for uuid, theirs in users.items()}
        found: dict[str, Lane] = {}
        for uuid in sorted(possible, key=lambda one: (len(possible[one]), one)):
            taken = set(found.values())
            free = [lane for lane in possible[uuid] if lane not in taken or lane[2] == WHOLE]
            found[uuid] = free[0] if free else ("", uuid, 0)  # it is on no lane of the plan
        return found


def misplaced_shares(
    places: SharePlaces, new: Iterable[tuple[PodHoldings, Booking]]
) -> frozenset[tuple[str, str]]:
    """(uid, booking) of running pods whose shares a booking does not cover where they are.

    Args:
        places: with the cover of all other pods.
        new: running pods that a booking would cover from now on, those first that come first.
    """
    cover, found = dict(places.cover), set[tuple[str, str]]()
    for holding, booking in new:
        if replace(places, cover=cover).may_begin(holding.uid, booking, holding):
            cover[holding.uid] = booking
        else:
            found.add((holding.uid, booking.name))
    return frozenset(found)


def _whole(booking: Booking) -> Lane:
    return booking.spec.model, booking.name, WHOLE


def _lanes(booking: Booking) -> list[Lane]:
    """The lane of each share of a booking; one that shares its device with nobody has a lane of its own."""
    spec = booking.spec
    planned = [number for place in spec.places for number in place.lanes][: spec.count]
    numbers = (*planned, *[0] * (spec.count - len(planned)))
    return [
        (spec.model, "", number) if number else (spec.model, booking.name, serial)
        for serial, number in enumerate(numbers)
    ]


def _common(users: list[tuple[Booking, int]]) -> list[Lane]:
    """The lanes that all of these bookings have, one of which a device is.

    Those with as many shares of a booking as one of its pods has of the device come first.
    """
    theirs = [
        Counter({_whole(booking): count} if booking.spec.memory is None else _lanes(booking))
        for booking, count in users
    ]
    lanes = set(theirs[0]).intersection(*theirs[1:])

    def is_narrow(lane: Lane) -> bool:
        return any(its[lane] < count for its, (_, count) in zip(theirs, users, strict=True))

    return sorted(lanes, key=lambda lane: (is_narrow(lane), lane))


def _shared(parts: Iterable[Holding]) -> dict[str, int]:
    return {part.device: part.slots for part in parts if part.mode is not None}
