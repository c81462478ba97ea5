"""Every accepted booking can be honoured: compared with trying everything, on small calendars."""

from datetime import timedelta

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from booking.server.capacity.free_capacity import CapacityRequest
from booking.server.records import Place, Record
from booking.server.store_records import Block
from cluster.fake.clock import START
from cluster.objects.bookings import Topology
from tests.booking.server.availability.world import HOUR, Lasting, World, a_block, hour, is_possible
from tests.fakes.records import a_record

_TOPOLOGIES = st.sampled_from(["any", "single-node"])
_REQUESTS = st.lists(
    st.tuples(st.integers(2, 9), st.integers(1, 6), st.integers(1, 4), _TOPOLOGIES), min_size=1, max_size=7
)
_NODES = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(
    lambda counts: {f"n{index}": count for index, count in enumerate(counts)}
)


_BLOCKS = st.lists(
    st.tuples(
        st.sampled_from(["n0", "n1"]), st.integers(2, 9), st.integers(1, 4), st.sampled_from([None, 1, 2])
    ),
    max_size=2,
).map(lambda drawn: [a_block(node, start, start + length, count) for node, start, length, count in drawn])


@given(_REQUESTS, _NODES, _BLOCKS)
@settings(max_examples=150)
def test_a_booking_is_accepted_with_a_place_and_refused_only_when_there_is_none(
    requests: list[tuple[int, int, int, Topology]], devices: dict[str, int], blocks: list[Block]
) -> None:
    world = World(devices, blocks)
    for start, length, count, topology in requests:
        before = list(world.records.values())
        booked = world.book(start, start + length, count, topology)
        wanted = a_record(
            id="wanted", start=hour(start), end=hour(start + length), count=count, topology=topology
        )
        if booked is None:
            # The search has a limit, which so few items do not reach.
            is_small = sum(1 if r.topology == "single-node" else r.count for r in [*before, wanted]) <= 9
            assert not is_small or not is_possible([*before, wanted], devices, blocks)
        elif any(r.topology == "single-node" and r.count > 1 for r in world.records.values()) or blocks:
            assert world.spoilt() is None
        else:
            assert is_possible(list(world.records.values()), devices)


@given(_REQUESTS, _NODES, _BLOCKS, st.data())
@settings(max_examples=100)
def test_the_witness_stays_valid_through_changes_cancellations_and_time(
    requests: list[tuple[int, int, int, Topology]],
    devices: dict[str, int],
    blocks: list[Block],
    data: st.DataObject,
) -> None:
    world = World(devices, blocks)
    world.book(20, 21, 2) or world.book(20, 21, 1)
    is_watched = bool(blocks) or any(r.count > 1 for r in world.records.values())
    for start, length, count, topology in requests:
        act = data.draw(st.sampled_from(["book", "change", "cancel", "later"]))
        planned = [r for r in world.records.values() if r.start > world.now and r.id != "b-0"]
        if act == "later":
            world.now += HOUR
        elif act == "cancel" and planned:
            cancelled = data.draw(st.sampled_from(planned))
            del world.records[cancelled.id]
        elif act == "change" and planned:
            record = data.draw(st.sampled_from(planned))
            free_capacity = world.free_capacity(record)
            begin = max(world.now, hour(start))
            placing = free_capacity.place(
                CapacityRequest(count=count, topology=record.topology), begin, begin + length * HOUR
            )
            if placing is not None:
                changed = msgspec.structs.replace(record, count=count, start=begin, end=begin + length * HOUR)
                world.store(changed, placing)
        elif hour(start) >= world.now:
            world.book(start, start + length, count, topology)
        if is_watched:
            assert world.spoilt() is None


@given(_REQUESTS, _NODES, st.data())
@settings(max_examples=100)
def test_when_devices_change_plans_are_repaired_and_no_booking_is_at_risk_without_need(
    requests: list[tuple[int, int, int, Topology]], devices: dict[str, int], data: st.DataObject
) -> None:
    world = World(devices)
    for start, length, count, topology in requests:
        world.book(start, start + length, count, topology)
    node = data.draw(st.sampled_from(sorted(devices)))
    world.devices = devices | {node: data.draw(st.integers(0, devices[node]))}
    world.now = hour(data.draw(st.integers(0, 4)))
    outcome = world.keep()
    live = [r for r in world.records.values() if r.end > world.now]
    cut = [msgspec.structs.replace(r, start=max(r.start, world.now)) for r in live]
    assert bool(outcome.at_risk) == (not is_possible(cut, world.devices))
    rest = [r for r in cut if r.id not in outcome.at_risk]
    assert is_possible(rest, world.devices)
    # Where only single devices are booked, no booking needs a place.
    if any(r.topology == "single-node" and r.count > 1 for r in live):
        assert world.spoilt(outcome.at_risk) is None


@given(_REQUESTS, _NODES, _BLOCKS, st.integers(1, 4), _TOPOLOGIES)
@settings(max_examples=100)
def test_the_earliest_start_is_the_first_that_would_be_accepted(
    requests: list[tuple[int, int, int, Topology]],
    devices: dict[str, int],
    blocks: list[Block],
    count: int,
    topology: Topology,
) -> None:
    world = World(devices, blocks)
    for start, length, each, kind in requests:
        world.book(start, start + length, each, kind)
    wanted = CapacityRequest(count=count, topology=topology)
    found = world.free_capacity().earliest(wanted, Lasting(START, 3 * HOUR))
    accepted = (
        hour(start)
        for start in range(40)
        if world.free_capacity().lacking(wanted, hour(start), hour(start + 3)) is None
    )
    first = next(accepted, None)
    assert (found is None) == (first is None)
    if found is not None and first is not None:
        assert world.free_capacity().lacking(wanted, found, found + 3 * HOUR) is None
        assert found >= first
        assert found == first or any(record.count > 1 for record in world.records.values()) or blocks


def test_a_planned_booking_is_moved_for_another_and_a_running_one_is_not() -> None:
    world = World({"n0": 2, "n1": 2})
    first = world.book(5, 9, 1, "any")
    second = world.book(5, 9, 1, "any")
    assert first is not None
    assert second is not None
    torn = {"b-0": (Place("n0", 1),), "b-1": (Place("n1", 1),)}
    for key, plan in torn.items():
        world.records[key] = msgspec.structs.replace(world.records[key], plan=plan)
    wanted = CapacityRequest(count=2, topology="single-node")
    placing = world.free_capacity().place(wanted, hour(6), hour(8))
    assert placing is not None
    assert len(placing.moved) == 1
    world.now = hour(6)
    assert world.free_capacity().place(wanted, hour(6), hour(8)) is None


def test_a_running_booking_is_extended_only_where_its_pods_run() -> None:
    world = World({"n0": 2, "n1": 2})
    running = a_record(
        id="b-run", start=hour(0), end=hour(4), count=2, topology="single-node", plan=(Place("n0", 2),)
    )
    later = a_record(
        id="b-later", start=hour(4), end=hour(9), count=2, topology="single-node", plan=(Place("n0", 2),)
    )
    world.records = {"b-run": running, "b-later": later}
    world.pins = {"b-run": {"n0": 2}}
    world.now = hour(2)
    placing = world.free_capacity(running).place(
        CapacityRequest(count=2, topology="single-node"), hour(0), hour(6)
    )
    assert placing is not None
    assert placing.plan == (Place("n0", 2),)
    assert placing.moved == {"b-later": (Place("n1", 2),)}
    world.records["b-third"] = a_record(
        id="b-third", start=hour(3), end=hour(9), count=2, topology="single-node", plan=(Place("n1", 2),)
    )
    assert (
        world.free_capacity(running).place(CapacityRequest(count=2, topology="single-node"), hour(0), hour(6))
        is None
    )


def test_the_place_of_a_past_booking_stays() -> None:
    world = World({"n0": 2, "n1": 2})
    for key, node in {"b-lost": "n9", "b-there": "n0"}.items():
        world.records[key] = a_record(id=key, start=hour(0), end=hour(2), count=1, plan=(Place(node, 1),))
    world.pins = {"b-there": {"n1": 1}}
    wanted = CapacityRequest(count=2, topology="single-node")
    world.now = hour(2)
    over = world.free_capacity().place(wanted, hour(2), hour(4))
    assert over is not None
    assert over.moved == {}
    world.now = hour(1)
    under_way = world.free_capacity().place(wanted, hour(2), hour(4))
    assert under_way is not None
    assert under_way.moved.keys() == {"b-lost", "b-there"}


def test_the_policys_buffer_stays_unbooked() -> None:
    world = World({"n0": 4})
    short = world.free_capacity().lacking(
        CapacityRequest(count=3, topology="any", buffer=2), hour(1), hour(2)
    )
    assert short is not None
    assert (short.free, short.total) == (2, 4)
    assert (
        world.free_capacity().lacking(CapacityRequest(count=2, topology="any", buffer=2), hour(1), hour(2))
        is None
    )


def test_earlier_bookings_and_bookings_with_running_pods_keep_their_place() -> None:
    world = World({"n0": 1, "n1": 1})

    def booked(name: str, day: int, **more: object) -> Record:
        return a_record(id=name, start=hour(0), end=hour(9), created=START - timedelta(days=day), **more)

    old, new = booked("b-old", 3), booked("b-new", 1)
    world.records = {"b-old": old, "b-new": new}
    world.devices = {"n0": 1, "n1": 0}
    world.now = hour(1)
    assert world.keep().at_risk == {"b-new"}
    world.pins = {"b-new": {"n0": 1}}
    assert world.keep().at_risk == {"b-old"}
