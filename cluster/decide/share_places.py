"""Which GPUs the shares of a booked pod may be on, so that bookings have no more GPUs than planned (law L5).

Shares that a booking of whole GPUs covers are on GPUs of that booking alone: one that has a share of it is
used before another one is opened, and no other booking's pod is put there. Bookings of shares have lanes: the
plan says which of them are on one GPU together. A GPU is a lane's as long as a pod has a booked share of that
lane there. Pods without a booking may have shares of all of these GPUs: they leave when a booked one needs
the room.

Pure: what is booked where follows from the pods that are covered, at each instant anew.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

from cluster import names
from cluster.decide.available import shares_on
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.amounts import NO_USE, Holding, Room
from cluster.decide.ledger.holdings import PodHoldings
from cluster.decide.protection import lasting_protection
from cluster.decide.request import GpuRequest, gpu_request_of
from cluster.decide.share_lanes import NOTHING, Lanes, Moved, Seat, whole
from cluster.decide.shares import place
from cluster.objects.bookings import Booking
from cluster.objects.hold import Hold
from cluster.objects.inventory import Device
from cluster.objects.namespaces import Namespace
from cluster.objects.pods import Pod, is_terminating
from cluster.objects.share_request import DEFAULT_MODE, requested_mode


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
        kept = self._kept.get(request.uid)
        moved = self._lanes.without(kept) if kept else NOTHING  # its own hold does not count
        ours = self._ours(request.uid, booking, moved)
        if ours and any(self._fits(request, view, ours) for view in self._views_with(ours, kept)):
            return replace(request, only=ours, never=frozenset())
        gone = (uuid for uuid, lane in moved.items() if lane is None)
        return replace(request, only=None, never=frozenset(self._lanes.of).difference(ours, gone))

    def may_begin(self, uid: str, booking: Booking, holding: PodHoldings) -> bool:
        """Whether a booking may cover a pod where it has its shares, beside those that are covered."""
        ours = self._ours(uid, booking)
        new = {uuid for uuid in holding.devices if uuid not in self._lanes.of}
        if not ours.issuperset(holding.devices.keys() - new):
            return False
        return booking.spec.memory is None or len(new) <= self._unopened(uid, booking)

    # --- inside --------------------------------------------------------------------------------------
    def _ours(self, uid: str, booking: Booking, moved: Moved = NOTHING) -> frozenset[str]:
        """Devices on which the pod's shares are expected: there its booking has places that no pod uses."""
        is_whole = booking.spec.memory is None
        lanes = (whole(booking),) if is_whole else self._lanes.left(uid, booking, moved)
        return self._lanes.devices(lanes, moved)

    def _unopened(self, uid: str, booking: Booking) -> int:
        """How many devices the lanes of a booking of shares still lack."""
        opened = set(self._lanes.of.values())
        left = self._lanes.left(uid, booking, NOTHING)
        return sum(lane not in opened for lane in left)

    def _fits(self, request: GpuRequest, view: NodeView, ours: frozenset[str]) -> bool:
        """Whether the pod fits on these devices once everybody has left who may be evicted."""
        if not shares_on(request, view):
            return False
        found: dict[str, list[tuple[Device, Room]]] = {}
        for model, devices in view.shareable_by_model.items():
            for device in devices:
                if device.uuid in ours and device.is_healthy and request.selector.takes(device):
                    found.setdefault(model, []).append((device, self._room(view, device, request.uid)))
        return place(request, {model: tuple(rooms) for model, rooms in found.items()}) is not None

    def _room(self, view: NodeView, device: Device, uid: str) -> Room:
        """What the pod may use of a device, as all that is kept for it is."""
        use, claims = NO_USE, set[str]()
        for holding in view.holdings:
            part = holding.devices.get(device.uuid)
            if part and part.claim not in claims and self._stays(holding):
                claims.update(filter(None, (part.claim,)))
                use = use.plus(part)
        for other, memory in self._kept_on.get(device.uuid, ()):
            if other != uid:
                pod = self.pods.get(other)
                wanted = requested_mode(pod) if pod else None
                mode = wanted or next(iter(use.modes), DEFAULT_MODE)
                use = use.plus(Holding(device.uuid, memory, mode=mode))
        return use.room_on(device)

    def _stays(self, holding: PodHoldings) -> bool:
        """Whether a pod stays when a booked one needs its room."""
        pod = self.pods.get(holding.uid)
        if holding.uid in self.cover or pod is None:
            return True
        protection = lasting_protection(pod, holding, namespaces=self.namespaces, home=self.home)
        return not is_terminating(pod) and protection is not None

    def _views_with(self, uuids: frozenset[str], without: Seat | None) -> Iterator[NodeView]:
        nodes = {seat.node for uuid in uuids for seat in self._lanes.seats_on[uuid] if seat is not without}
        return (self.views[node] for node in sorted(nodes) if node in self.views)

    @cached_property
    def _lanes(self) -> Lanes:
        return Lanes(chain(self._seats(), self._kept.values()))

    def _seats(self) -> Iterator[Seat]:
        """The covered pods with shares."""
        for name, view in self.views.items():
            of_claims: set[tuple[str, str]] = set()
            for holding in view.holdings:
                booking, parts = self.cover.get(holding.uid), holding.devices.values()
                new = [one for one in parts if not one.claim or (one.claim, one.device) not in of_claims]
                if booking and (shared := _shared(new)):
                    of_claims.update((one.claim, one.device) for one in new)
                    yield Seat(holding.uid, name, booking, shared)

    @cached_property
    def _kept(self) -> Mapping[str, Seat]:
        """Uid of a covered pod that waits -> the shares that are kept for it."""
        return {
            uid: Seat(uid, hold.node, booking, self._expected(uid, hold))
            for uid, hold in self.holds.items()
            if hold.memory is not None and (booking := self.cover.get(uid))
        }

    @cached_property
    def _kept_on(self) -> Mapping[str, list[tuple[str, int]]]:
        """Device -> each pod for which some of it is kept, and how much; MiB."""
        found: dict[str, list[tuple[str, int]]] = {}
        for uid in self._kept:
            hold = self.holds[uid]
            for uuid in dict.fromkeys(hold.devices):
                found.setdefault(uuid, []).append((uid, hold.memory or 0))
        return found

    def _expected(self, uid: str, hold: Hold) -> Mapping[str, int]:
        """How many shares a waiting pod will have of each device that is kept for it."""
        pod, each = self.pods.get(uid), 1
        if pod and len(hold.devices) == 1:
            each = max(1, gpu_request_of(pod).devices)
        return dict.fromkeys(hold.devices, each)


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


def _shared(parts: Iterable[Holding]) -> dict[str, int]:
    return {part.device: part.slots for part in parts if part.mode is not None}
