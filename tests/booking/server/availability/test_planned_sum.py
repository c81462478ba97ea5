"""How many devices can be booked where the sum over all nodes decides: at the edges, in words."""

import msgspec
import pytest

from booking.server.availability.calendars import calendar_of
from booking.server.availability.planned_capacity import PlannedCapacities
from booking.server.capacity.free_capacity import CapacityRequest
from booking.server.records import Place
from cluster.fake.clock import START
from tests.booking.server.availability.world import HOUR, Lasting, World, a_block, hour
from tests.fakes.objects import A100
from tests.fakes.records import a_record


def the_sum(count: int, buffer: int = 0) -> CapacityRequest:
    return CapacityRequest(count=count, topology="any", buffer=buffer)


@pytest.mark.parametrize(
    ("start", "end", "free"),
    [(0, 2, 3), (1, 3, 1), (2, 4, 1), (3, 5, 1), (4, 6, 3), (0, 9, 1), (5, 8, 2), (6, 8, 2), (8, 9, 3)],
)
def test_a_booking_takes_its_devices_from_its_start_until_just_before_its_end(
    start: int, end: int, free: int
) -> None:
    world = World({"n0": 2, "n1": 1})
    assert world.book(2, 4, 2, "any") is not None
    assert world.book(6, 8, 1, "any") is not None
    assert world.free_capacity().lacking(the_sum(free), hour(start), hour(end)) is None
    short = world.free_capacity().lacking(the_sum(free + 1), hour(start), hour(end))
    assert short is not None
    assert (short.free, short.total) == (free, 3)


@pytest.mark.parametrize(
    ("count", "buffer", "free", "message"),
    [
        (4, 0, 3, " can be had all the time from {} to {}, and 4 are asked for."),
        (3, 1, 2, " (with 1 to be left free) can be had all the time from {} to {}, and 3 are asked for."),
        (1, 9, 0, " (with 9 to be left free) can be had all the time from {} to {}, and 1 is asked for."),
    ],
)
def test_a_shortage_reports_the_total_and_the_free_gpus_and_never_fewer_than_zero(
    count: int, buffer: int, free: int, message: str
) -> None:
    world = World({"n0": 4})
    assert world.book(1, 3, 1, "any") is not None
    short = world.free_capacity().lacking(the_sum(count, buffer), hour(1), hour(2))
    assert short is not None
    assert short.free == free
    span = message.format("2026-03-02 10:00 UTC", "2026-03-02 11:00 UTC")
    assert short.message == f"{free} of the 4 GPUs of model {A100}{span}"


def test_a_shortage_counts_only_devices_that_take_no_planned_node() -> None:
    world = World({"n0": 2, "n1": 2})
    assert world.book(1, 5, 2) is not None
    for key, start, end in (("b-a", 1, 3), ("b-b", 3, 5)):
        world.records[key] = a_record(id=key, start=hour(start), end=hour(end), plan=(Place("n1", 1),))
        world.pins[key] = {"n1": 1}
    world.records["b-b"] = msgspec.structs.replace(world.records["b-b"], start=hour(0), end=hour(3))
    world.now = hour(1)
    short = world.free_capacity().lacking(the_sum(1), hour(1), hour(4))
    assert short is not None
    assert (short.free, short.total) == (0, 4)


@pytest.mark.parametrize("model", [A100, "another"])
def test_a_changed_booking_frees_its_own_devices_and_does_not_affect_another_model(model: str) -> None:
    world = World({"n0": 2})
    mine = a_record(id="b-mine", start=hour(2), end=hour(6), count=2, model=model, plan=(Place("n0", 2),))
    his = a_record(id="b-his", start=hour(2), end=hour(6), count=1, plan=(Place("n0", 1),))
    of_a100 = [his, mine] if model == A100 else [his]
    calendar = calendar_of(of_a100)
    capacities = PlannedCapacities(
        capacity=world.capacity, now=START, calendar_of=lambda _model: calendar, changing=mine
    )
    assert capacities(A100).lacking(the_sum(1), hour(3), hour(5)) is None
    assert capacities(A100).lacking(the_sum(2), hour(3), hour(5)) is not None


def test_a_place_is_not_needed_while_no_booking_needs_one_node() -> None:
    """Each node is free for one half of the time. The sum fits, so another booking will move in time."""
    world = World({"n0": 1, "n1": 1})
    for key, start, node in (("b-0", 2, "n0"), ("b-1", 4, "n1")):
        world.records[key] = a_record(id=key, start=hour(start), end=hour(start + 2), plan=(Place(node, 1),))
    unplaced = world.free_capacity().place(the_sum(1), hour(3), hour(5))
    assert unplaced is not None
    assert (unplaced.plan, unplaced.moved) == ((), {})
    world.blocks = [a_block("n0", 30, 31)]
    placed = world.free_capacity().place(the_sum(1), hour(3), hour(5))
    assert placed is not None
    assert (len(placed.plan), len(placed.moved)) == (1, 1)
    assert world.free_capacity().place(the_sum(2), hour(3), hour(5)) is None


@pytest.mark.parametrize(
    ("count", "buffer", "not_before", "length", "start"),
    [
        (1, 0, 0, 9, 0),
        (2, 0, 0, 2, 0),
        (2, 0, 0, 3, 4),
        (2, 0, 3, 1, 4),
        (2, 1, 0, 2, None),
        (1, 1, 1, 2, 4),
        (3, 0, 0, 1, None),
    ],
)
def test_the_earliest_start_of_single_devices_is_where_the_sum_fits_for_the_whole_length(
    count: int, buffer: int, not_before: int, length: int, start: int | None
) -> None:
    world = World({"n0": 2})
    assert world.book(2, 4, 1, "any") is not None
    found = world.free_capacity().earliest(the_sum(count, buffer), Lasting(hour(not_before), length * HOUR))
    assert found == (None if start is None else hour(start))
