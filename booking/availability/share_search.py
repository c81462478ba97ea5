"""Devices for a booking of shares: in lanes that have room, in lanes that grow, or in new ones. Pure.

Joining a lane that lasts long enough takes no device from anybody. A lane of one device may also grow in time; where
neither helps, the shares get devices of their own, as whole GPUs would. The plan places lanes, and checks only them.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from booking.availability.calendars import Calendar, share_plan
from booking.availability.current_plan import CurrentPlan
from booking.free_capacity import Placement
from cluster.decide.booking_plan import OFF_PLAN, Item, Lane, PlanAttempt, Share, Timeline, lanes_of
from cluster.decide.booking_plan.lanes import numbers, peak, places

GROWING: Final = 16
"""How many lanes that would have to grow are tried for one share."""
_NOWHERE: Final = ""


class WantedShares(msgspec.Struct, frozen=True, kw_only=True):
    """A booking of shares, without a place."""

    key: str
    start: int
    end: int
    count: int
    memory: int
    """MiB of each of ``count`` devices."""
    is_together: bool
    """Whether they must be on one node."""
    offered: int
    """MiB that each device of the model offers."""
    limit: int
    """Devices that may be booked at any instant."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What the booking that is changed has already."""

    devices: tuple[int, ...] = ()
    """Their numbers."""
    nodes: tuple[str, ...] = ()
    """The node of each."""
    has_begun: bool = False
    """Whether it stays where it is."""


class _Option(msgspec.Struct, frozen=True):
    """Devices of these numbers, in lanes that become one."""

    devices: tuple[int, ...]
    touched: tuple[tuple[Lane, str], ...] = ()
    node: str = _NOWHERE
    """The only node where they may be; empty: wherever there is room."""


class ShareSearch:
    """One attempt to find devices; it may move other bookings, in so many steps."""

    def __init__(
        self,
        wanted: WantedShares,
        current: CurrentPlan,
        calendar: Calendar,
        load: Timeline,
        *,
        steps: int,
        held: Held,
    ) -> None:
        """An attempt.

        Args:
            wanted: the shares.
            current: the plan at present, without the booking that is changed.
            calendar: that it was made from.
            load: devices in use over time, of that calendar and of maintenance.
            steps: how many places may be tried.
            held: what the booking has, if it is changed.
        """
        self._wanted, self._current, self._calendar, self._load = wanted, current, calendar, load
        self._held = held
        self._attempt: PlanAttempt = current.attempt(steps)
        self._lanes: dict[str, tuple[Lane, str]] = {}
        for key, lane in calendar.lanes.items():
            _, node = next(iter(current.placed.get(key, ())), (lane.item, lane.node))
            if node in current.model_plan.node_plans:
                self._lanes[key] = (lane, node)
        self._changed: set[str] = set()
        self._taken: set[int] = set()
        self._found: list[Share] = []

    @property
    def left(self) -> int:
        """How many more places may be tried."""
        return self._attempt.left

    @property
    def found(self) -> int:
        """How many of the shares have a device."""
        return len(self._found)

    def place(self) -> Placement | None:
        """A place for all shares, and which bookings have to move for it; None if there is none."""
        size = self._wanted.count if self._wanted.is_together else 1
        for first in range(0, self._wanted.count, size):
            if not any(self._takes(option, first) for option in self._options(size, first)):
                return None
        return self._placement() if self._has_room_for_strays() else None

    # --- where shares could be -----------------------------------------------------------------------
    def _options(self, size: int, first: int) -> Iterator[_Option]:
        """Places for the next shares, as many as must be together, best first."""
        held = self._held
        if own := held.devices[first : first + size]:
            more = islice(self._fresh(), size - len(own))
            yield from self._kept((*own, *more), held.nodes[first])
            if held.has_begun and len(own) == size:
                return
        yield from self._inside(size)
        yield _Option(tuple(islice(self._fresh(), size)))
        if size == 1:
            yield from islice(self._growing(), GROWING)

    def _kept(self, devices: tuple[int, ...], node: str) -> Iterator[_Option]:
        """The devices that the booking has: where they are, and if it has not begun anywhere."""
        if not self._taken.isdisjoint(devices):
            return
        touched = self._touched(devices)
        if node in self._current.model_plan.node_plans:
            yield _Option(devices, touched, node)
        if not self._held.has_begun or node not in self._current.model_plan.node_plans:
            yield _Option(devices, touched)

    def _inside(self, size: int) -> Iterator[_Option]:
        """Lanes that last long enough and have devices with room, the fullest first."""
        found: list[tuple[int, tuple[int, ...], tuple[Lane, str]]] = []
        for lane, node in self._lanes.values():
            item = lane.item
            if item.start <= self._wanted.start and self._wanted.end <= item.end and item.size >= size:
                rooms = sorted((room, d) for d in _devices(lane) if (room := self._room(lane, d)) >= 0)
                if len(rooms) >= size:
                    total = sum(room for room, _ in rooms[:size])
                    found.append((total, tuple(d for _, d in rooms[:size]), (lane, node)))
        yield from (_Option(devices, (pair,), pair[1]) for _, devices, pair in sorted(found, key=_by_room))

    def _growing(self) -> Iterator[_Option]:
        """Devices of one-device lanes that would last longer, those first that grow least."""
        found: list[tuple[int, int, int]] = []
        start, end = self._wanted.start, self._wanted.end
        for lane, _ in self._lanes.values():
            item = lane.item
            is_inside = item.start <= start and end <= item.end
            if item.size == 1 and item.start < end and start < item.end and not is_inside:
                (device,) = _devices(lane)
                growth = max(end, item.end) - min(start, item.start) - (item.end - item.start)
                found.append((growth, self._room(lane, device), device))
        for _, room, device in sorted(found):
            touched = self._touched((device,))
            nodes = {node for _, node in touched}
            if room >= 0 and device and device not in self._taken and len(nodes) == 1:
                yield _Option((device,), touched, next(iter(nodes)))
                if not any(self._is_fixed(lane.item) for lane, _ in touched):
                    yield _Option((device,), touched)

    def _fresh(self) -> Iterator[int]:
        known = (share.device for lane in self._calendar.lanes.values() for share in lane.shares)
        return numbers([*known, *self._taken, *self._held.devices])

    def _touched(self, devices: Sequence[int]) -> tuple[tuple[Lane, str], ...]:
        """The lanes that a share of any of these devices would join."""
        start, end = self._wanted.start, self._wanted.end
        return tuple(
            (lane, node)
            for lane, node in self._lanes.values()
            if any(one.device in devices and one.start < end and one.end > start for one in lane.shares)
        )

    def _room(self, lane: Lane, device: int) -> int:
        """MiB that a device has left all the time when the share is there; negative if it has too little."""
        if device in self._taken or not device:
            return -1
        theirs = [share for share in lane.shares if share.device == device]
        return self._wanted.offered - self._wanted.memory - peak(theirs, self._wanted.start, self._wanted.end)

    def _is_fixed(self, item: Item) -> bool:
        return item.start <= self._current.fixed_until or item in self._current.fixed

    # --- taking one ----------------------------------------------------------------------------------
    def _takes(self, option: _Option, first: int) -> bool:
        """Place the shares there, if the plan allows it."""
        shares = self._shares(option, first)
        before = [lane for lane, _ in option.touched]
        if not all(self._fits(device, before) for device in option.devices):
            return False
        after = lanes_of([*(share for lane in before for share in lane.shares), *shares])
        if len(after) != 1 or len({node for _, node in option.touched}) > 1:
            return False
        (lane,) = after
        if len(before) == 1 and _extent(before[0].item) == _extent(lane.item):
            self._note(option, lane, option.touched[0][1], shares)
            return True
        if not self._is_within_limit(lane.item, before):
            return False
        for old, node in option.touched:
            self._attempt.take(old.item, node)
        if self._attempt.place_all([lane.item], {lane.item: option.node} if option.node else {}):
            self._note(option, lane, self._attempt.places[lane.item], shares)
            return True
        for old, node in option.touched:
            self._attempt.put(old.item, node)
        return False

    def _shares(self, option: _Option, first: int) -> list[Share]:
        want = self._wanted
        return [
            Share(
                want.start, want.key, first + number, want.end, want.memory, device, option.node, want.is_together
            )
            for number, device in enumerate(option.devices)
        ]

    def _fits(self, device: int, lanes: Iterable[Lane]) -> bool:
        theirs = [share for lane in lanes for share in lane.shares if share.device == device]
        return peak(theirs, self._wanted.start, self._wanted.end) + self._wanted.memory <= self._wanted.offered

    def _is_within_limit(self, item: Item, before: Sequence[Lane]) -> bool:
        """Whether so many devices may be booked wherever the lane needs more than those before it."""
        after = self._load.plus(item.start, item.end, item.size)
        growth = [(item.start, item.end, item.size)]
        for lane in before:
            after = after.plus(lane.item.start, lane.item.end, -lane.item.size)
            growth.append((lane.item.start, lane.item.end, -lane.item.size))
        spans = Timeline.of(growth).spans()
        if any(after.most(start, end) > self._wanted.limit for start, end, more in spans if more > 0):
            return False
        self._load = after
        return True

    def _note(self, option: _Option, lane: Lane, node: str, shares: Iterable[Share]) -> None:
        for old, _ in option.touched:
            del self._lanes[old.item.key]
        self._lanes[lane.item.key] = (lane, node)
        self._changed.add(lane.item.key)
        self._changed -= {old.item.key for old, _ in option.touched if old.item.key != lane.item.key}
        self._taken.update(option.devices)
        self._found += [share._replace(node=node) for share in shares]

    # --- the result ------------------------------------------------------------------------------------
    def _has_room_for_strays(self) -> bool:
        """Whether pods of the booking keep their devices, too, where it has none."""
        want = self._wanted
        for number, (node, count) in enumerate(sorted(self._current.pods.items())):
            missing = count - sum(share.node == node for share in self._found)
            node_plan = self._attempt.node_plan(node)
            if missing > 0 and node_plan is not None:
                if node_plan.room(want.start, want.end) < missing:
                    return False
                self._attempt.put(Item(want.start, want.key, OFF_PLAN + number, want.end, missing), node)
        return True

    def _placement(self) -> Placement:
        key = self._wanted.key
        places_now = {
            item: node
            for item, node in self._attempt.places.items()
            if item.key in self._calendar.lanes or self._calendar.has_unit(item.key)
        }
        for lane_key in self._changed:
            lane, node = self._lanes[lane_key]
            for share in lane.shares:
                if share.booking != key:
                    old = self._lane_of[share.booking, share.serial]
                    places_now[old.item] = node
        moved = self._current.moved({item: node for item, node in places_now.items() if self._is_known(item)})
        return Placement(plan=share_plan(places(self._found, {})), moved=moved)

    def _is_known(self, item: Item) -> bool:
        """Whether it is an item of the calendar, and not a lane as it would become."""
        return any(item == known for known, _ in self._calendar.unit(item.key).placed())

    @property
    def _lane_of(self) -> dict[tuple[str, int], Lane]:
        lanes = self._calendar.lanes.values()
        return {(share.booking, share.serial): lane for lane in lanes for share in lane.shares}


def _devices(lane: Lane) -> set[int]:
    return {share.device for share in lane.shares}


def _extent(item: Item) -> tuple[int, int, int]:
    return item.start, item.end, item.size


def _by_room(found: tuple[int, tuple[int, ...], tuple[Lane, str]]) -> tuple[int, tuple[int, ...]]:
    return found[0], found[1]
