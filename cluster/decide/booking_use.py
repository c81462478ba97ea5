"""How much of a running booking its pods use, and whether one more fits: whole devices, and shares.

A booking of whole devices covers shares of its owner, too. A device of which a covered pod has a share is
used up by the booking, and takes as many of the owner's shares as fit on it together. A booking of shares
covers shares that are no larger than its own, and never a whole device.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cluster.decide.ledger import Holding, NodeView
from cluster.decide.ledger.amounts import ALL_COMPUTE, NO_ROOM, NO_USE, Room
from cluster.decide.request import GpuRequest
from cluster.decide.shares import place
from cluster.objects.bookings import BookingSpec
from cluster.objects.inventory import Device
from cluster.objects.share_request import Slot

Example = Callable[[str], Device | None]
"""Model -> a device of it that offers shares, the smallest; None if no node has one."""
Parts = tuple[tuple[Device, Holding], ...]
"""The devices that a pod has, each with what it has of it."""


def example_of(views: Iterable[NodeView]) -> Example:
    """Looks for examples on these nodes."""
    known = tuple(views)
    return lambda model: smallest(one for view in known for one in view.shareable_by_model.get(model, ()))


def smallest(devices: Iterable[Device]) -> Device | None:
    """The device that offers the least memory to shares; None if none offers any."""
    return min((one for one in devices if one.share), key=_offered, default=None)


def _offered(device: Device) -> tuple[int, str]:
    return device.share.memory if device.share else 0, device.uuid


def no_example(_model: str) -> Device | None:
    """Nothing is known of any model: then no share that waits is covered by whole devices."""
    return None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a pod wants of a booking."""

    gpus: int
    """Number of devices; of a pod with shares the number of its slots."""
    shares: GpuRequest | None = None
    """Its request, if it asks for shares."""
    parts: Parts = ()
    """What it has, if it has shares."""
    by_claim: tuple[tuple[str, int], ...] = ()
    """(Uid, devices) of each of its claims, which other pods may have, too."""

    @property
    def width(self) -> int:
        """How many different devices it needs at least."""
        return self.shares.share.width if self.shares and self.shares.share else self.gpus


class BookingUse:
    """What the pods of one booking use of it, as they are added one by one."""

    def __init__(self, spec: BookingSpec, example: Example = no_example) -> None:
        """Args: example: devices of the models, by which the size of shares that wait is known."""
        self._spec = spec
        self._example = example
        self._bins: dict[str, tuple[Device, Room]] = {}
        """Devices of a whole booking of which its pods have shares, with the room for more."""
        self._awaited: set[str] = set()
        """Those of the devices on which a pod that waits is expected."""
        self._claims: set[str] = set()
        """Uids of the claims that are counted."""
        self.left: int = spec.count
        """Devices, or shares, that no pod uses."""

    def add(self, wanted: Wanted) -> bool:
        """Add a pod, if there is enough left for it; False if there is not.

        What a claim has counts once, however many pods have the claim.
        """
        if self._spec.memory is not None:
            return self._use_whole(wanted) if is_within(wanted, self._spec, self._example) else False
        if wanted.by_claim and self._claims.issuperset(uid for uid, _ in wanted.by_claim):
            return True
        if wanted.shares is None or (wanted.by_claim and self._example(self._spec.model) is None):
            return self._put(wanted.parts) if wanted.parts else self._use_whole(wanted)
        is_added = self._put(wanted.parts) if wanted.parts else self._expect(wanted.shares)
        if is_added:
            self._claims.update(uid for uid, _ in wanted.by_claim)
        return is_added

    def _use_whole(self, wanted: Wanted) -> bool:
        counted = {uid: count for uid, count in wanted.by_claim if uid in self._claims}
        if not self._use(wanted.gpus - sum(counted.values())):
            return False
        self._claims.update(uid for uid, _ in wanted.by_claim)
        return True

    def _use(self, count: int) -> bool:
        if count > self.left:
            return False
        self.left -= count
        return True

    def _put(self, parts: Parts) -> bool:
        """Add shares where they are: each device counts once. Room for pods that wait is theirs."""
        if any(
            device.uuid in self._awaited and not self._bins[device.uuid][1].fits(part)
            for device, part in parts
        ) or not self._use(sum(device.uuid not in self._bins for device, _ in parts)):
            return False
        for device, part in parts:
            room = self._bins[device.uuid][1] if device.uuid in self._bins else NO_USE.room_on(device)
            self._bins[device.uuid] = device, room.less(part) if room.fits(part) else NO_ROOM
        return True

    def _expect(self, request: GpuRequest) -> bool:
        """Add shares that wait: on devices that the booking has shares of, else on further ones."""
        if self._place(request, self._bins):
            return True
        sample, least = self._example(self._spec.model), request.share.width if request.share else 1
        for count in range(least, min(self.left, request.devices) + 1) if sample else ():
            names = [f"{request.uid} {number}" for number in range(count)]
            fresh = {name: _renamed(sample, name) for name in names}
            if self._place(request, {uuid: (one, NO_USE.room_on(one)) for uuid, one in fresh.items()}):
                return self._use(count)
        return False

    def _place(self, request: GpuRequest, among: dict[str, tuple[Device, Room]]) -> bool:
        found = place(request, {self._spec.model: tuple(among.values())})
        for part in found.holdings if found else ():
            device, room = among[part.device]
            self._awaited.add(part.device)
            self._bins[part.device] = device, room.less(part)
        return found is not None


def is_within(wanted: Wanted, spec: BookingSpec, example: Example = no_example) -> bool:
    """Whether each share of a pod is no more than one of a booking of shares; False for whole devices.

    Its part of the compute may not be larger than its part of the memory: a device has room for as many
    booked shares as its memory says.
    """
    if wanted.shares is None or wanted.shares.share is None or spec.memory is None:
        return False
    if wanted.parts:
        return all(_is_small(part, device, spec.memory) for device, part in wanted.parts)
    device = example(spec.model) or Device("")
    for need in wanted.shares.share.needs:
        slot = Slot((need.amount,))
        if not (need.amount.memory or device.share):
            return False
        if not _is_small(Holding("", slot.memory_on(device), slot.cores, "time-slice"), device, spec.memory):
            return False
    return True


def _is_small(part: Holding, device: Device, memory: int) -> bool:
    if part.mode is None or part.memory > memory * part.slots:
        return False
    offered = device.share.memory if device.share else 0
    return not part.compute or part.compute * offered <= ALL_COMPUTE * memory * part.slots


def _renamed(device: Device | None, uuid: str) -> Device:
    share = device.share if device else None
    return Device(
        uuid, model=device.model if device else "", memory=device.memory if device else 0, share=share
    )
