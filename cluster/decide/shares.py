"""Which GPUs of a node a pod with shares gets: one rule for filter, bind and explanations.

Of the GPUs that are shared already in the pod's mode, it takes the one with the least room that is enough,
so that the others keep room for larger shares, and whole GPUs stay whole; a pod that wants to be spread takes
the one with the most. Where none has enough, a free GPU is opened, chosen as for a pod that needs one whole.
The shares of one container are on different GPUs of one model, unless the pod mixes models.

Shares of several containers are placed one after the other, the largest first; where one finds no room, those
before it are placed otherwise. So a pod is refused only where nothing fits, except one of so many containers
that trying everything would take too long.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from cluster.decide.available import matching, reserved
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.amounts import NO_USE, Holding, Room
from cluster.decide.ledger.offers import Rooms
from cluster.decide.request import GpuRequest
from cluster.objects.assignment import Assignment
from cluster.objects.inventory import Device, SharingMode, nvlinks_to
from cluster.objects.share_request import ShareNeed, ShareRequest, Slot

TRIES: Final = 100
"""Number of places that are tried in vain for the shares of one pod on one node: filter asks all nodes."""
MODES: Final[tuple[SharingMode, ...]] = ("time-slice", "mps")
"""In the order in which they are tried for a pod that takes any."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The GPUs that a pod with shares gets."""

    assignment: Assignment
    mode: SharingMode
    holdings: tuple[Holding, ...]
    """What it then holds, one for each of its GPUs, sorted by UUID."""
    opened: tuple[Device, ...] = ()
    """Those of the GPUs of which nobody had a share."""
    left: int = 0
    """MiB that its GPUs offer to further shares then."""

    @property
    def uuids(self) -> frozenset[str]:
        """Its GPUs."""
        return frozenset(one.device for one in self.holdings)

    def rank(self, share: ShareRequest) -> tuple[int, int]:
        """The order among models: as few GPUs opened as possible, then as among GPUs of one model."""
        return len(self.opened), 0 if self.opened else (-self.left if share.spreads else self.left)


@dataclass(slots=True)
class _Place:
    """One slot to be placed, and the containers that have it."""

    slot: Slot
    users: frozenset[int]
    """Positions of the containers in the request: no container has two slots of one GPU."""


def with_opened(found: Rooms, opened: Rooms) -> Rooms:
    """The GPUs, and others that a reservation pod could open."""
    return {model: (*found.get(model, ()), *opened.get(model, ())) for model in sorted({*found, *opened})}


def rooms(request: GpuRequest, view: NodeView) -> Rooms:
    """The GPUs of which the pod may be given a share now. A pod with a hold is offered those of its hold."""
    hold = request.hold
    if hold and hold.node != view.name:
        return {}
    free = view.free_by_model if hold is None else view.unheld_by_model
    away = reserved(request, view, request.resource) if hold is None and view.nominated else frozenset()

    def is_offered(device: Device) -> bool:
        if hold is None:
            return (
                view.on_hold.get(device.uuid, request.uid) == request.uid
                and device.uuid not in away
                and request.may_share(device.uuid)
            )
        return device.uuid in hold.devices and view.on_hold.get(device.uuid, request.uid) == request.uid

    found: dict[str, tuple[tuple[Device, Room], ...]] = {}
    for model, devices in matching(free.get(request.resource, {}), request.selector).items():
        found[model] = tuple((one, NO_USE.room_on(one)) for one in devices if one.share and is_offered(one))
    for model, opened in view.open_by_model.items():
        takes = request.selector.takes
        ours = tuple(one for one in opened if takes(one[0]) and is_offered(one[0]))
        found[model] = (*ours, *found.get(model, ()))
    return found


def lacks_slots(request: GpuRequest, found: Rooms) -> bool:
    """Whether the shares of all containers together need more slots than these GPUs have."""
    is_one = request.share is None or len(request.share.needs) == 1
    return not is_one and request.devices > sum(room.slots for rooms in found.values() for _, room in rooms)


def place(request: GpuRequest, found: Rooms, *, spare: int = 0) -> Shared | None:
    """The GPUs that the pod gets of these; None if they are not enough.

    Args:
        request: of a pod with shares.
        found: the GPUs that it may be given.
        spare: how many of those that nobody seems to have must be left alone.
    """
    share = request.share
    if share is None or not found or lacks_slots(request, found):
        return None
    groups = [[each for of_model in found.values() for each in of_model]] if request.mixes else found.values()
    modes = MODES if share.mode is None else (share.mode,)
    tried = (_in_group(share, list(group), mode, spare) for mode in modes for group in _ordered(groups))
    placed = [one for one in tried if one]
    return min(placed, key=lambda one: one.rank(share)) if placed else None


def _ordered(groups: Iterable[Iterable[tuple[Device, Room]]]) -> list[list[tuple[Device, Room]]]:
    """The models in the order of preference: the one with the fewest free GPUs first, as for whole GPUs."""
    lists = [list(group) for group in groups]
    return sorted(
        (group for group in lists if group),
        key=lambda group: (sum(room.is_whole for _, room in group), group[0][0].model),
    )


def _in_group(
    share: ShareRequest, group: list[tuple[Device, Room]], mode: SharingMode, spare: int
) -> Shared | None:
    if share.width > len(group):
        return None
    search = _Search(share, group, mode, spare)
    return search.result() if search.may_succeed() and search.place(0) else None


class _Search:
    """A search for a place of each slot."""

    def __init__(
        self, share: ShareRequest, group: list[tuple[Device, Room]], mode: SharingMode, spare: int
    ) -> None:
        self._share = share
        self._mode: SharingMode = mode
        self._devices = {device.uuid: device for device, _ in group}
        self._rooms = {device.uuid: room for device, room in group}
        self._whole = {device.uuid for device, room in group if room.is_whole}
        self._may_open = len(self._whole) - spare
        self._places, self._chosen = _places(share.needs)
        self._order = sorted(range(len(self._places)), key=self._size, reverse=True)
        self._at: dict[int, str] = {}
        """Number of a slot -> UUID."""
        self._tries = TRIES + len(self._order)

    def may_succeed(self) -> bool:
        """False if the slots are too many or too large together, which trying finds out slowly.

        Of so many of the largest slots, whatever their number, a GPU has room for no more than if all were as
        small as the least of them.
        """
        if len(self._order) == 1:
            return True
        open_here = [(uuid, room) for uuid, room in self._rooms.items() if self._mode in room.modes]
        least: dict[str, int] = {}
        needed = 0
        for count, number in enumerate(self._order, 1):
            slot, possible = self._places[number].slot, 0
            sizes = {uuid: slot.memory_on(self._devices[uuid]) for uuid, _ in open_here}
            needed += min(sizes.values(), default=0)
            for uuid, room in open_here:
                least[uuid] = min(least.get(uuid, sizes[uuid]), sizes[uuid])
                possible += min(room.slots, room.memory // least[uuid])
            if possible < count:
                return False
        return needed <= sum(room.memory for _, room in open_here)

    def place(self, position: int) -> bool:
        """Place the slots from this one on, in their order."""
        if position == len(self._order):
            return True
        number = self._order[position]
        wanted = self._places[number]
        barred = {uuid for other, uuid in self._at.items() if self._places[other].users & wanted.users}
        tried: set[tuple[object, ...]] = set()
        for device, room, part in list(self._candidates(wanted.slot, barred)):
            if position + 1 < len(self._order):  # nothing can fail after the last one
                alike = self._alike(device, room)
                if alike in tried:
                    continue
                tried.add(alike)
            self._tries -= 1
            if self._tries < 0:
                return False
            self._rooms[device.uuid], self._at[number] = room.less(part), device.uuid
            if self.place(position + 1):
                return True
            self._rooms[device.uuid] = room
            del self._at[number]
        return False

    def _alike(self, device: Device, room: Room) -> tuple[object, ...]:
        """Equal for two GPUs that make no difference to the slots that are still to be placed."""
        users = [self._places[number].users for number, uuid in self._at.items() if uuid == device.uuid]
        return room, device.share, device.memory, frozenset[int]().union(*users)

    def result(self) -> Shared:
        """What was found."""
        assignment = {
            need.name: tuple(self._at[number] for number in numbers)
            for need, numbers in zip(self._share.needs, self._chosen, strict=True)
        }
        slots: dict[str, list[Slot]] = {}
        for number, uuid in self._at.items():
            slots.setdefault(uuid, []).append(self._places[number].slot)
        holdings = tuple(
            Holding(
                uuid,
                memory=sum(slot.memory_on(self._devices[uuid]) for slot in of),
                compute=sum(slot.cores for slot in of),
                mode=self._mode,
                slots=len(of),
            )
            for uuid, of in sorted(slots.items())
        )
        opened = tuple(self._devices[uuid] for uuid in sorted(slots) if uuid in self._whole)
        left = sum(self._rooms[uuid].memory for uuid in slots)
        return Shared(assignment, self._mode, holdings, opened, left)

    def _candidates(self, slot: Slot, barred: set[str]) -> Iterator[tuple[Device, Room, Holding]]:
        """The GPUs with room for a slot, the best first."""
        opened = sum(not self._rooms[uuid].is_whole for uuid in self._whole)
        shared: list[tuple[Device, Room, Holding]] = []
        whole: list[tuple[Device, Room, Holding]] = []
        for uuid, device in self._devices.items():
            room = self._rooms[uuid]
            part = Holding(uuid, slot.memory_on(device), slot.cores, self._mode)
            if uuid not in barred and room.fits(part):
                (whole if room.is_whole else shared).append((device, room, part))
        sign = -1 if self._share.spreads else 1
        yield from sorted(shared, key=lambda one: (sign * one[1].memory, one[0].index, one[0].uuid))
        if opened < self._may_open:
            free = [device for device, _, _ in whole]
            yield from sorted(whole, key=lambda one: (nvlinks_to(one[0], free), one[0].index, one[0].uuid))

    def _size(self, number: int) -> tuple[int, int, int]:
        slot = self._places[number].slot
        most = max(self._devices.values(), key=lambda device: device.share.memory if device.share else 0)
        return slot.memory_on(most), slot.cores, -number


def _places(needs: tuple[ShareNeed, ...]) -> tuple[list[_Place], list[list[int]]]:
    """The slots of a pod, and for each container the numbers of its own: as the kubelet reuses them."""
    slots: list[list[int]] = []
    """Number of a slot -> the containers that have it."""
    chosen: list[list[int]] = []
    left: list[int] = []
    for position, need in enumerate(needs):
        again = left[: need.count]
        fresh = list(range(len(slots), len(slots) + need.count - len(again)))
        slots += [[] for _ in fresh]
        chosen.append(again + fresh)
        for number in chosen[-1]:
            slots[number].append(position)
        left = left + fresh if need.kind == "init" else left[need.count :]
    places = [_Place(Slot(tuple(needs[user].amount for user in users)), frozenset(users)) for users in slots]
    return places, chosen
