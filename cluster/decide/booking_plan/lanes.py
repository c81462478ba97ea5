"""Lanes: devices that the plan reserves for bookings of shares. To the plan a lane is one item.

Shares that overlap on one device are a lane: a device from the first start to the last end. It has one node.
All shares of a booking that wants them on one node are in one lane, which then has several devices.

Shares of one device have the same number. Numbers are those of a model, on whichever nodes, and mean nothing
else: two shares with one number that never overlap are not in one lane.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, NamedTuple

from cluster.decide.booking_plan.item_list import Item
from cluster.decide.booking_plan.pinned import LANE, NO_NODE, Places, PlannedBooking

ALONE: Final = 0
"""The number of a device that one share has alone."""


class Share(NamedTuple):
    """A booking's part of one device."""

    start: int
    booking: str
    serial: int
    """Which of the booking's shares it is."""
    end: int
    memory: int
    """MiB."""
    device: int
    """Number of its device, or ``ALONE``."""
    node: str
    is_together: bool
    """Whether its booking wants all its shares on one node."""

    @property
    def on(self) -> object:
        """Equal for shares of one device."""
        return self.device if self.device != ALONE else (self.booking, self.serial)


@dataclass(frozen=True, slots=True)
class Lane:
    """Shares that stay together, and the devices for them."""

    shares: tuple[Share, ...]
    """By start."""
    item: Item
    node: str
    """``NO_NODE`` if it has no place."""

    @property
    def planned(self) -> PlannedBooking:
        """The lane as a booking of whole devices of one node."""
        item = self.item
        plan = ((self.node, item.size),) if self.node != NO_NODE else ()
        return PlannedBooking(item.key, item.start, item.end, item.size, is_whole=True, plan=plan)

    @property
    def peak(self) -> int:
        """MiB of its fullest device at its fullest instant."""
        mine = ([one for one in self.shares if one.on == on] for on in {share.on for share in self.shares})
        return max(peak(some, self.item.start, self.item.end) for some in mine)


def shares_of(booking: PlannedBooking) -> list[Share]:
    """A booking's shares, with the nodes and devices that the plan has for them."""
    nodes = [node for node, number in booking.plan for _ in range(number)][: booking.count]
    nodes += [NO_NODE] * (booking.count - len(nodes))
    devices = (*booking.devices, *[ALONE] * booking.count)
    return [
        Share(
            booking.start,
            booking.key,
            serial,
            booking.end,
            booking.memory or 0,
            devices[serial],
            nodes[serial],
            booking.is_whole,
        )
        for serial in range(booking.count)
    ]


def lanes_of(shares: Iterable[Share]) -> list[Lane]:
    """The lanes of a model's shares, by start."""
    groups: list[list[Share]] = []
    together: dict[str, int] = {}
    """Booking -> the group of its shares, which moves as groups are joined."""
    joined: dict[int, int] = {}
    for run in _runs(shares):
        groups.append(run)
        here = len(groups) - 1
        for share in run:
            if share.is_together:
                before = _root(joined, together.setdefault(share.booking, here))
                if before != (mine := _root(joined, here)):
                    joined[mine] = before
    merged: dict[int, list[Share]] = {}
    for number, group in enumerate(groups):
        merged.setdefault(_root(joined, number), []).extend(group)
    return sorted(map(_lane, merged.values()), key=lambda lane: lane.item)


def peak(shares: Iterable[Share], start: int, end: int) -> int:
    """The most MiB of these shares at any instant of ``[start, end)``."""
    there = [one for one in shares if one.start < end and one.end > start]
    instants = {max(start, one.start) for one in there}
    return max((sum(o.memory for o in there if o.start <= at < o.end) for at in instants), default=0)


def numbers(taken: Iterable[int]) -> Iterator[int]:
    """Numbers for further devices: the smallest that are not taken."""
    known = set(taken)
    return (number for number in count(ALONE + 1) if number not in known)


def lane_pins(lanes: Iterable[Lane], pins: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Lane -> node -> devices that pods of its bookings have there.

    Args:
        lanes: of one model.
        pins: booking -> node -> devices that its pods have there.
    """
    found: dict[str, dict[str, int]] = {}
    theirs: dict[str, list[Lane]] = {}
    for lane in lanes:
        for share in lane.shares:
            if share.booking in pins:
                theirs.setdefault(share.booking, []).append(lane)
    for booking, its in theirs.items():
        here: dict[tuple[str, str], int] = {}
        for lane, node in _matched(its, pins[booking]):
            here[lane.item.key, node] = here.get((lane.item.key, node), 0) + 1
        for (key, node), number in here.items():
            nodes = found.setdefault(key, {})
            nodes[node] = max(nodes.get(node, 0), number)
    return found


def places(shares: Sequence[Share], nodes: Mapping[tuple[str, int], str]) -> Places:
    """(node, devices' numbers) of a booking's shares, by node.

    Args:
        shares: all of the booking.
        nodes: (booking, serial) -> node, of those that have another node than they say.
    """
    found: dict[str, list[int]] = {}
    for one in sorted(shares, key=lambda each: each.serial):
        found.setdefault(nodes.get((one.booking, one.serial), one.node), []).append(one.device)
    return tuple((node, tuple(devices)) for node, devices in sorted(found.items()))


def _runs(shares: Iterable[Share]) -> Iterator[list[Share]]:
    """Shares that overlap on one device, directly or through others."""
    by_device: dict[object, list[Share]] = {}
    for share in sorted(shares):
        by_device.setdefault(share.on, []).append(share)
    for some in by_device.values():
        run, until = [some[0]], some[0].end
        for share in some[1:]:
            if share.start >= until:
                yield run
                run = []
            run.append(share)
            until = max(until, share.end)
        yield run


def _root(joined: Mapping[int, int], number: int) -> int:
    while number in joined:
        number = joined[number]
    return number


def _lane(shares: list[Share]) -> Lane:
    ordered = tuple(sorted(shares))
    first = ordered[0]
    size = len({one.on for one in ordered})
    nodes = {one.node for one in ordered}
    item = Item(
        first.start, f"{LANE}{first.booking}/{first.serial}", 0, max(one.end for one in ordered), size
    )
    return Lane(ordered, item, nodes.pop() if len(nodes) == 1 else NO_NODE)


def _matched(lanes: Sequence[Lane], pods: Mapping[str, int]) -> Iterator[tuple[Lane, str]]:
    """(lane, node) of each device that a booking's pods have: in its lanes there, else in any other of them.

    Args:
        lanes: the lane of each share of the booking.
        pods: node -> devices that its pods have there.
    """
    left, spare = dict(pods), []
    for lane in lanes:
        if left.get(lane.node):
            left[lane.node] -= 1
            yield lane, lane.node
        else:
            spare.append(lane)
    elsewhere = (node for node, number in sorted(left.items()) for _ in range(number))
    yield from zip(spare, elsewhere, strict=False)
