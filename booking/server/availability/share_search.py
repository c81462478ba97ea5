"""Devices for a booking of shares: in lanes that have room, in lanes that grow, or in new ones. Pure.

Joining a lane that lasts long enough takes no device from anybody. A lane of one device may also grow in
time. Where neither helps, the shares get devices of their own, as whole GPUs would.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final

import msgspec

from booking.server.availability.calendars import Calendar, share_plan
from booking.server.availability.current_plan import CurrentPlan
from booking.server.capacity.free_capacity import Placement
from cluster.decide.booking_plan import OFF_PLAN, Item, Lane, PlanAttempt, Share, Timeline, lanes_of
from cluster.decide.booking_plan.lanes import ALONE, numbers, peak, places

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
    slots: int
    """How many shares each device can be in."""
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
    touched: tuple[Lane, ...] = ()
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
        self._held, self._steps = held, steps
        self._attempt: PlanAttempt = current.attempt(steps)
        self._lanes: dict[Item, Lane] = {}
        """The lanes that have a place, with the shares that were found one."""
        self._nodes: dict[Item, str] = {}
        """Where they are in the current plan."""
        for key, lane in calendar.lanes.items():
            _, node = next(iter(current.placed.get(key, ())), (lane.item, lane.node))
            if node in current.model_plan.node_plans:
                self._lanes[lane.item] = lane
                self._nodes[lane.item] = node
        self._changed: set[Item] = set()
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
            if held.has_begun:
                return
        yield from self._inside(size)
        growing = islice(self._growing(), GROWING) if size == 1 else iter(())
        new = iter([_Option(tuple(islice(self._fresh(), size)))])
        # A search for others' places costs steps: of what is left most is for devices of its own.
        yield from chain(new, growing) if self._steps else chain(growing, new)

    def _kept(self, devices: tuple[int, ...], node: str) -> Iterator[_Option]:
        """The devices that the booking has: where they are, and if it has not begun anywhere."""
        if not self._taken.isdisjoint(devices):
            return
        touched, pods = self._touched(devices), self._current.pods
        if fixed := {self._node(lane) for lane in touched if self._is_fixed(lane.item)}:
            node = min(fixed)
        elif pods and node not in pods:
            node = min(pods, key=lambda name: (-pods[name], name))
        if node in self._current.model_plan.node_plans:
            yield _Option(devices, touched, node)
        if not self._held.has_begun or node not in self._current.model_plan.node_plans:
            yield _Option(devices, touched)

    def _inside(self, size: int) -> Iterator[_Option]:
        """Lanes that last long enough and have devices with room, the fullest first."""
        found: list[tuple[int, tuple[int, ...], Lane]] = []
        for item, lane in self._lanes.items():
            if item.start <= self._wanted.start and self._wanted.end <= item.end and item.size >= size:
                rooms = sorted((room, d) for d in _devices(lane) if (room := self._room(lane, d)) >= 0)
                if len(rooms) >= size:
                    total = sum(room for room, _ in rooms[:size])
                    found.append((total, tuple(d for _, d in rooms[:size]), lane))
        yield from (_Option(devices, (lane,)) for _, devices, lane in sorted(found, key=_by_room))

    def _growing(self) -> Iterator[_Option]:
        """Devices of one-device lanes that would last longer, those first that grow least."""
        found: list[tuple[int, int, int]] = []
        start, end = self._wanted.start, self._wanted.end
        for item, lane in self._lanes.items():
            is_inside = item.start <= start and end <= item.end
            if item.size == 1 and item.start < end and start < item.end and not is_inside:
                (device,) = _devices(lane)
                growth = max(end, item.end) - min(start, item.start) - (item.end - item.start)
                found.append((growth, self._room(lane, device), device))
        for _, room, device in sorted(found):
            touched = self._touched((device,))
            nodes = {self._node(lane) for lane in touched}
            if room >= 0 and len(nodes) == 1:
                yield _Option((device,), touched, next(iter(nodes)))
                if not any(self._is_fixed(lane.item) for lane in touched):
                    yield _Option((device,), touched)

    def _fresh(self) -> Iterator[int]:
        known = (share.device for lane in self._calendar.lanes.values() for share in lane.shares)
        return numbers([*known, *self._taken, *self._held.devices])

    def _node(self, lane: Lane) -> str:
        return self._attempt.places.get(lane.item) or self._nodes[lane.item]

    def _touched(self, devices: Sequence[int]) -> tuple[Lane, ...]:
        """The lanes that a share of any of these devices would join."""
        start, end = self._wanted.start, self._wanted.end
        return tuple(
            lane
            for lane in self._lanes.values()
            if any(one.device in devices and one.start < end and one.end > start for one in lane.shares)
        )

    def _room(self, lane: Lane, device: int) -> int:
        """MiB that a device has left all the time when the share is there; negative if it has too little."""
        if device in self._taken or not device:
            return -1
        return self._left([share for share in lane.shares if share.device == device])

    def _is_fixed(self, item: Item) -> bool:
        return item.start <= self._current.fixed_until or item in self._current.fixed

    # --- taking one ----------------------------------------------------------------------------------
    def _takes(self, option: _Option, first: int) -> bool:
        """Place the shares there, if the plan allows it."""
        shares, before = self._shares(option, first), option.touched
        if not all(self._fits(device, before) for device in option.devices):
            return False
        after = lanes_of([*(share for lane in before for share in lane.shares), *shares])
        if len(after) != 1 or len({self._node(lane) for lane in before}) > 1:
            return False
        (lane,) = after
        if len(before) == 1 and _extent(before[0].item) == _extent(lane.item):
            self._note(option, Lane(lane.shares, before[0].item, before[0].node), shares)
            return True
        if (load := self._within_limit(lane.item, before)) is None:
            return False
        nodes = [(old.item, self._node(old)) for old in before]
        for item, node in nodes:
            self._attempt.take(item, node)
        if self._attempt.place_all([lane.item], {lane.item: option.node} if option.node else {}):
            self._load = load
            self._note(option, lane, shares)
            return True
        for item, node in nodes:
            self._attempt.put(item, node)
        return False

    def _shares(self, option: _Option, first: int) -> list[Share]:
        want = self._wanted
        return [
            Share(
                want.start,
                want.key,
                first + number,
                want.end,
                want.memory,
                device,
                option.node,
                want.is_together,
            )
            for number, device in enumerate(option.devices)
        ]

    def _fits(self, device: int, lanes: Iterable[Lane]) -> bool:
        return self._left([share for lane in lanes for share in lane.shares if share.device == device]) >= 0

    def _left(self, shares: Sequence[Share]) -> int:
        """MiB that these leave of a device besides the share; negative if it has no room for it."""
        want = self._wanted
        if peak([one._replace(memory=1) for one in shares], want.start, want.end) >= want.slots:
            return -1
        return want.offered - want.memory - peak(shares, want.start, want.end)

    def _within_limit(self, item: Item, before: Sequence[Lane]) -> Timeline | None:
        """The load with the lane in place of those before it; None if it is too high where the lane grows."""
        after = self._load.plus(item.start, item.end, item.size)
        growth = [(item.start, item.end, item.size)]
        for lane in before:
            after = after.plus(lane.item.start, lane.item.end, -lane.item.size)
            growth.append((lane.item.start, lane.item.end, -lane.item.size))
        spans = Timeline.of(growth).spans()
        is_over = any(after.most(start, end) > self._wanted.limit for start, end, more in spans if more > 0)
        return None if is_over else after

    def _note(self, option: _Option, lane: Lane, shares: Iterable[Share]) -> None:
        for old in option.touched:
            del self._lanes[old.item]
            self._changed.discard(old.item)
        self._lanes[lane.item] = lane
        self._changed.add(lane.item)
        self._taken.update(option.devices)
        self._found += shares

    # --- the result ------------------------------------------------------------------------------------
    def _has_room_for_strays(self) -> bool:
        """Whether pods of the booking keep their devices, too, where it has none."""
        want = self._wanted
        for number, (node, count) in enumerate(sorted(self._current.pods.items())):
            missing = count - sum(at == node for at in self._own_nodes().values())
            node_plan = self._attempt.node_plan(node)
            if missing > 0 and node_plan is not None:
                if node_plan.room(want.start, want.end) < missing:
                    return False
                self._attempt.put(Item(want.start, want.key, OFF_PLAN + number, want.end, missing), node)
        return True

    def _placement(self) -> Placement:
        calendar = self._calendar
        lanes = {(one.booking, one.serial): lane for lane in calendar.lanes.values() for one in lane.shares}
        moved = {item: node for item, node in self._attempt.places.items() if self._is_known(item)}
        for item in self._changed:
            node = self._node(self._lanes[item])
            others = (share for share in self._lanes[item].shares if share.booking != self._wanted.key)
            moved |= {lanes[share.booking, share.serial].item: node for share in others}
        plan = share_plan(places(self._found, self._own_nodes()))
        return Placement(plan=plan, moved=self._current.moved(moved))

    def _own_nodes(self) -> dict[tuple[str, int], str]:
        """(booking, serial) -> node, of the shares that were found a place."""
        key, lanes = self._wanted.key, (self._lanes[item] for item in self._changed)
        return {
            (share.booking, share.serial): self._node(lane)
            for lane in lanes
            for share in lane.shares
            if share.booking == key
        }

    def _is_known(self, item: Item) -> bool:
        """Whether it is an item of the calendar, and not a lane as it would become."""
        calendar = self._calendar
        return calendar.has_unit(item.key) and any(item == one for one, _ in calendar.unit(item.key).placed())


def scarcity(lanes: Iterable[Lane], load: Timeline, *, memory: int, offered: int, slots: int) -> Timeline:
    """Devices in use over time, without those of lanes that have so much memory left then.

    Where it leaves too few devices for a share of that size, there is no place for one.

    Args:
        lanes: all of the model.
        load: devices in use, these lanes included.
        memory: MiB.
        offered: MiB that each device offers.
        slots: how many shares each device can be in.
    """
    by_device: dict[int, list[Share]] = {}
    for lane in lanes:
        for share in lane.shares:
            by_device.setdefault(share.device, []).append(share)
    by_device.pop(ALONE, None)
    for shares in by_device.values():
        used = Timeline.of((one.start, one.end, one.memory) for one in shares)
        numbers_of = Timeline.of((one.start, one.end, 1) for one in shares)
        for start, end, level in used.spans():
            if level + memory <= offered and numbers_of.most(start, end) < slots:
                load = load.plus(start, end, -1)
    return load


def _devices(lane: Lane) -> set[int]:
    return {share.device for share in lane.shares}


def _extent(item: Item) -> tuple[int, int, int]:
    return item.start, item.end, item.size


def _by_room(found: tuple[int, tuple[int, ...], Lane]) -> tuple[int, tuple[int, ...]]:
    return found[0], found[1]
