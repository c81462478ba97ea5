"""Bookings of shares in the plan: exact in MiB on every device, and never in the way like whole GPUs."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec
import pytest

from booking.server.capacity.free_capacity import CapacityRequest
from booking.server.records import Record
from cluster.objects.bookings import Topology
from tests.booking.server.availability.world import Lasting, World, hour
from tests.fakes.dice import Dice

GPU = 80
"""MiB that each device of these worlds offers."""


def a_world(**devices: int) -> World:
    return World(devices or {"n0": 2, "n1": 1}, offered=GPU)


def lanes(record: Record | None) -> list[tuple[str, tuple[int, ...]]]:
    assert record is not None
    return [(place.node, place.lanes) for place in record.plan]


def overcommitted(world: World) -> str | None:
    """Where a device has too much, or a share has no device: worked out by the numbers in the plans alone."""
    live = [record for record in world.records.values() if record.end > world.now]
    for record in live:
        mine = [number for place in record.plan for number in place.lanes]
        if record.memory is not None and (len(mine), len(set(mine))) != (record.count, record.count):
            return f"{record.id} has devices {mine}, not {record.count} different ones"
        if sum(place.count for place in record.plan) != record.count or not all(p.node for p in record.plan):
            return f"{record.id} has no place: {record.plan}"
        if record.topology == "single-node" and len(record.plan) != 1:
            return f"{record.id} is torn apart: {record.plan}"
    for at in sorted({world.now, *(record.start for record in live if record.start > world.now)}):
        running = [record for record in live if record.start <= at < record.end]
        for node, count in world.devices.items():
            if fault := _at(running, node, count):
                return f"{fault} at {at}"
    return None


def _at(running: Iterable[Record], node: str, count: int) -> str | None:
    whole, used = 0, dict[int, int]()
    for record in running:
        for place in record.plan:
            if place.node == node and record.memory is None:
                whole += place.count
            elif place.node == node:
                for number in place.lanes:
                    used[number] = used.get(number, 0) + (record.memory or 0)
    full = {number: memory for number, memory in used.items() if memory > GPU}
    return f"{whole} + {used} on {node} of {count}" if full or whole + len(used) > count else None


def test_shares_that_fit_together_are_one_device_to_the_plan() -> None:
    world = a_world(n0=1)
    first, second = world.book(1, 9, memory=30), world.book(2, 8, memory=50)
    assert lanes(first) == lanes(second) == [("n0", (1,))]
    assert world.book(7, 8, memory=1) is None
    assert world.book(8, 9, memory=50) is not None
    assert world.book(9, 12) is not None


def test_a_booking_of_shares_takes_as_many_different_devices() -> None:
    world = a_world(n0=2)
    assert world.book(1, 9, 3, memory=10) is None
    assert world.book(1, 9, 2, memory=40) is not None
    assert world.book(1, 9, 2, memory=41) is None
    assert lanes(world.book(1, 9, 2, memory=40)) == [("n0", (1, 2))]


def test_a_whole_gpu_is_never_booked_where_a_share_is() -> None:
    world = a_world(n0=1, n1=1)
    world.book(1, 9, memory=1)
    assert world.book(1, 9) is not None
    assert world.book(8, 12) is None
    assert world.book(8, 12, memory=80) is None


def test_a_lane_moves_as_a_whole_for_a_booking_that_needs_one_node() -> None:
    world = a_world(n0=2, n1=1)
    world.book(1, 9, memory=30)
    world.book(5, 12, memory=30)
    assert {record.plan[0].node for record in world.records.values()} == {"n1"}
    world.devices = {"n0": 2, "n1": 1, "n2": 1}
    world.keep()
    assert world.book(3, 4, 2) is not None
    assert overcommitted(world) is None


def test_lanes_on_a_lost_node_stay_together_and_come_back_as_one_device() -> None:
    world = a_world(n0=1)
    world.book(1, 9, memory=30)
    world.book(2, 8, memory=50)
    world.devices = {"n1": 0}
    assert world.keep().at_risk == {"b-0", "b-1"}
    world.devices = {"n1": 1}
    assert world.keep().at_risk == frozenset()
    assert overcommitted(world) is None


def test_shares_larger_than_what_devices_offer_now_are_at_risk() -> None:
    world = a_world(n0=2)
    world.book(1, 9, memory=70)
    world.book(1, 9)
    world.offered = 60
    assert world.keep().at_risk == {"b-0"}


def test_the_earliest_start_waits_for_memory_on_a_shared_device() -> None:
    world = a_world(n0=1)
    world.book(0, 20, memory=30)
    world.book(0, 5, memory=30)
    wanted = CapacityRequest(count=1, topology="any", memory=50)
    found = world.free_capacity().earliest(wanted, Lasting(hour(0), timedelta(hours=4)))
    assert found == hour(5)


def test_a_buffer_keeps_devices_and_not_their_parts() -> None:
    world = a_world(n0=2)
    world.book(1, 9, memory=30)
    ask = CapacityRequest(count=1, topology="any", memory=60, buffer=1)
    assert world.free_capacity().place(ask, hour(1), hour(9)) is None
    ask = msgspec.structs.replace(ask, memory=50)
    assert world.free_capacity().place(ask, hour(1), hour(9)) is not None


def test_a_pod_of_a_share_keeps_its_lane_on_its_node() -> None:
    world = a_world(n0=1, n1=1)
    world.book(0, 9, memory=30)
    world.book(1, 9, memory=30)
    (here,) = world.records["b-0"].plan
    other = "n1" if here.node == "n0" else "n0"
    world.pins = {"b-0": {other: 1}}
    world.keep()
    assert {record.plan[0].node for record in world.records.values()} == {other}


@pytest.mark.parametrize("seed", range(60))
def test_l5_no_history_of_bookings_gives_a_device_more_memory_than_it_has(seed: int) -> None:
    world, dice = a_world(n0=3, n1=2, n2=1), Dice(seed)
    for _ in range(60):
        _step(world, dice)
        assert overcommitted(world) is None
        assert world.keep().at_risk == frozenset()
        assert overcommitted(world) is None


def _step(world: World, dice: Dice) -> None:
    live = [record for record in world.records.values() if record.end > world.now]
    match dice.below(10):
        case 0 if live:
            record = live[dice.below(len(live))]
            if record.start > world.now:
                del world.records[record.id]
            else:
                world.records[record.id] = msgspec.structs.replace(record, end=world.now)
        case 1 | 2 if live:
            _change(world, live[dice.below(len(live))], dice)
        case 3:
            world.now += timedelta(hours=dice.below(4))
        case _:
            memory = (None, 20, 40, 45, 80)[dice.below(5)]
            topology: Topology = "any" if dice.below(2) else "single-node"
            begin = round((world.now - hour(0)) / timedelta(hours=1)) + dice.below(12)
            world.book(
                begin, begin + 1 + dice.below(10), (1, 1, 2, 3)[dice.below(4)], topology, memory=memory
            )


def _change(world: World, record: Record, dice: Dice) -> None:
    """Longer, shorter, later, larger, or another number, as the service asks it."""
    has_begun = record.start <= world.now
    start = record.start if has_begun else record.start + timedelta(hours=dice.below(3))
    end = max(record.end + timedelta(hours=dice.below(6) - 2), start + timedelta(hours=1), _next(world.now))
    count = max(1, record.count + dice.below(3) - 1)
    if record.count == 1:
        count = 1
    memory = record.memory and min(GPU, max(1, record.memory + 20 * dice.below(3) - 20))
    ask = CapacityRequest(count=count, topology=record.topology, memory=memory)
    placing = world.free_capacity(record).place(ask, max(start, world.now), end)
    if placing is not None:
        after = msgspec.structs.replace(record, start=start, end=end, count=count, memory=memory)
        world.store(after, placing)


def _next(now: datetime) -> datetime:
    return now + timedelta(hours=1)


@pytest.mark.parametrize("seed", range(40))
def test_whoever_could_have_had_a_whole_gpu_gets_a_share(seed: int) -> None:
    world, dice = a_world(n0=2, n1=1), Dice(seed)
    for _ in range(40):
        start = 1 + dice.below(24)
        end = start + 1 + dice.below(12)
        wholes = list(world.records.values())
        peak = max(
            sum(each.start <= at < each.end for each in wholes)
            for at in {hour(start), *(e.start for e in wholes if hour(start) < e.start < hour(end))}
        )
        booked = world.book(start, end, 1, "any", memory=(None, 20, 50)[dice.below(3)])
        assert booked is not None or peak >= sum(world.devices.values())


def test_a_device_is_in_no_more_shares_than_it_has_slots() -> None:
    world = a_world(n0=1)
    assert [world.book(1, 9, memory=1) is not None for _ in range(17)] == [True] * 16 + [False]


@pytest.mark.parametrize("seed", range(30))
def test_the_earliest_start_of_a_share_is_the_first_at_which_it_has_a_place(seed: int) -> None:
    world, dice = a_world(n0=2, n1=1), Dice(seed)
    for _ in range(30):
        start = dice.below(24)
        count, memory = (1, 1, 2)[dice.below(3)], (None, 20, 50, 80)[dice.below(4)]
        world.book(start, start + 1 + dice.below(9), count, memory=memory)
    for memory, count in ((20, 1), (45, 1), (70, 2)):
        wanted = CapacityRequest(count=count, topology="any", memory=memory)
        hours = range(40)
        length = timedelta(hours=1 + dice.below(6))
        free = world.free_capacity()
        found = free.earliest(wanted, Lasting(hour(0), length))
        assert found == next(hour(at) for at in hours if free.place(wanted, hour(at), hour(at) + length))


def test_a_running_share_that_is_extended_stays_where_its_pod_is() -> None:
    world = a_world(n0=1, n1=1)
    world.book(0, 9, memory=30)
    (planned,) = world.records["b-0"].plan
    other = "n1" if planned.node == "n0" else "n0"
    world.pins = {"b-0": {other: 1}}
    record = world.records["b-0"]
    ask = CapacityRequest(count=1, topology="any", memory=30)
    placing = world.free_capacity(record).place(ask, hour(0), hour(12))
    assert placing is not None
    assert [place.node for place in placing.plan] == [other]
