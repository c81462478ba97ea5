"""Which lane of its bookings each GPU is that has booked shares, and what changes if one hold were not there.

A lane is a GPU that the plan of bookings of shares expects: it says which of them are on one GPU together.
Which GPU it becomes is seen by the pods that are covered and by the holds of those that wait. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Final

from cluster.objects.bookings import Booking

Lane = tuple[str, str, int]
"""Model, booking, number: the booking is empty for a lane that several may have, the number is ``WHOLE`` for
the devices of a booking of whole ones."""
WHOLE: Final = -1
Moved = Mapping[str, Lane | None]
"""Device -> the lane that it would be; None if no booking had a share of it."""
NOTHING: Final[Moved] = {}


@dataclass(frozen=True, slots=True)
class Seat:
    """A covered pod that has shares of devices, or for which a hold keeps them."""

    uid: str
    node: str
    booking: Booking
    devices: Mapping[str, int]
    """UUID -> how many shares it has of that device."""


class Lanes:
    """The lanes at one instant."""

    def __init__(self, seats: Iterable[Seat]) -> None:
        """Args: seats: of all covered pods, and of the holds of those that are covered and wait."""
        self.seats_on: Final[dict[str, list[Seat]]] = {}
        """Device -> who has shares of it."""
        self._seats_of: dict[str, list[Seat]] = {}
        for seat in seats:
            self._seats_of.setdefault(seat.booking.name, []).append(seat)
            for uuid in seat.devices:
                self.seats_on.setdefault(uuid, []).append(seat)
        self._lanes: dict[int, Counter[Lane]] = {}
        self._possible = {uuid: self._common(uuid, theirs) for uuid, theirs in self.seats_on.items()}
        self.of: Final[Mapping[str, Lane]] = _assigned(self._possible)
        """Device of which a booking has a share -> its lane."""

    def without(self, seat: Seat) -> Moved:
        """What would be otherwise if this seat were not there; only what it concerns is looked at."""
        rests = {uuid: [one for one in self.seats_on[uuid] if one is not seat] for uuid in seat.devices}
        new = {uuid: self._common(uuid, theirs) for uuid, theirs in rests.items() if theirs}
        if len(new) == len(rests) and all(self._possible[uuid] == lanes for uuid, lanes in new.items()):
            return NOTHING
        lanes = set(chain.from_iterable(chain(new.values(), (self._possible[uuid] for uuid in rests))))
        groups = {group for lane in lanes if (group := self._group_of.get(lane)) is not None}
        concerned = set(rests).union(*(self._groups[group] for group in groups))
        left = {
            uuid: new.get(uuid, self._possible[uuid])
            for uuid in concerned
            if uuid in new or uuid not in rests
        }
        assigned = _assigned(left)
        return {uuid: assigned.get(uuid) for uuid in concerned}

    def devices(self, lanes: Iterable[Lane], moved: Moved) -> frozenset[str]:
        """The devices that are one of these lanes."""
        wanted = set(lanes)
        usual = (uuid for lane in wanted for uuid in self._on.get(lane, ()) if uuid not in moved)
        return frozenset(chain(usual, (uuid for uuid, lane in moved.items() if lane in wanted)))

    def left(self, uid: str, booking: Booking, moved: Moved) -> dict[Lane, int]:
        """Lane -> how many shares of it a booking has that no other pod than this one uses."""
        left = Counter(lanes_of(booking))
        for seat in self._seats_of.get(booking.name, ()):
            if seat.uid != uid:
                for uuid, count in seat.devices.items():
                    if lane := moved.get(uuid, self.of[uuid]):
                        left[lane] -= count
        return {lane: count for lane, count in left.items() if count > 0}

    def _common(self, uuid: str, seats: Iterable[Seat]) -> list[Lane]:
        """The lanes that the bookings of all these seats have, one of which the device is.

        Those with as many shares of a booking as one of its pods has of the device come first.
        """
        most: dict[int, tuple[Booking, int]] = {}
        for seat in seats:
            booking, count = most.get(id(seat.booking), (seat.booking, 0))
            most[id(booking)] = booking, max(count, seat.devices[uuid])
        theirs = [(self._shares(booking, count), count) for booking, count in most.values()]
        lanes = set(theirs[0][0]).intersection(*(its for its, _ in theirs[1:]))
        return sorted(lanes, key=lambda lane: (any(its[lane] < count for its, count in theirs), lane))

    def _shares(self, booking: Booking, count: int) -> Counter[Lane]:
        if booking.spec.memory is None:
            return Counter({whole(booking): count})
        found = self._lanes.get(id(booking))
        if found is None:
            found = self._lanes[id(booking)] = Counter(lanes_of(booking))
        return found

    @cached_property
    def _on(self) -> Mapping[Lane, list[str]]:
        found: dict[Lane, list[str]] = {}
        for uuid, lane in self.of.items():
            found.setdefault(lane, []).append(uuid)
        return found

    @cached_property
    def _group_of(self) -> Mapping[Lane, Lane]:
        """Lane -> one that stands for all those that the choice of this one can concern."""
        above: dict[Lane, Lane] = {}
        for lanes in self._possible.values():
            for lane in lanes[1:]:
                one, other = _top(above, lane), _top(above, lanes[0])
                if one != other:
                    above[one] = other
        return {
            lane: _top(above, lane) for lanes in self._possible.values() for lane in lanes if lane[2] != WHOLE
        }

    @cached_property
    def _groups(self) -> Mapping[Lane, AbstractSet[str]]:
        found: dict[Lane, set[str]] = {}
        for uuid, lanes in self._possible.items():
            if lanes and (group := self._group_of.get(lanes[0])) is not None:
                found.setdefault(group, set()).add(uuid)
        return found


def whole(booking: Booking) -> Lane:
    """The lane of all devices of a booking of whole ones."""
    return booking.spec.model, booking.name, WHOLE


def lanes_of(booking: Booking) -> list[Lane]:
    """The lane of each share of a booking; one that shares its device with nobody has a lane of its own."""
    spec = booking.spec
    planned = [number for place in spec.places for number in place.lanes][: spec.count]
    numbers = (*planned, *[0] * (spec.count - len(planned)))
    return [
        (spec.model, "", number) if number else (spec.model, booking.name, serial)
        for serial, number in enumerate(numbers)
    ]


def _top(above: dict[Lane, Lane], lane: Lane) -> Lane:
    path = []
    while lane in above:
        path.append(lane)
        lane = above[lane]
    for each in path:
        above[each] = lane
    return lane


def _assigned(possible: Mapping[str, list[Lane]]) -> dict[str, Lane]:
    found, taken = dict[str, Lane](), set[Lane]()
    for uuid in sorted(possible, key=lambda one: (len(possible[one]), one)):
        free = (lane for lane in possible[uuid] if lane not in taken or lane[2] == WHOLE)
        found[uuid] = next(free, ("", uuid, 0))  # or it is on no lane of the plan
        taken.add(found[uuid])
    return found
