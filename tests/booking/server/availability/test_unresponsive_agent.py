"""A node whose agent is unresponsive for minutes neither prevents nor endangers later bookings."""

from dataclasses import replace
from datetime import timedelta

from booking.server.capacity.capacity import Capacity, Grant
from booking.server.capacity.free_capacity import CapacityRequest
from cluster.fake.clock import START
from tests.booking.server.availability.world import World, hour
from tests.fakes.objects import A100

QUARTER = timedelta(minutes=15)
PAIR = CapacityRequest(count=2, topology="single-node")


class Unresponsive(World):
    """n0 is unresponsive: new bookings of it can start only in a quarter of an hour."""

    @property
    def capacity(self) -> Capacity:
        return replace(super().capacity, pauses={A100: (Grant("n0", 2, START + QUARTER),)})


def test_a_booking_that_begins_after_the_pause_is_accepted() -> None:
    world = Unresponsive({"n0": 2})
    assert world.book(1, 3, 2) is not None
    assert world.book(200, 300, 2) is not None


def test_a_booking_that_begins_at_once_is_accepted_only_on_other_nodes() -> None:
    world = Unresponsive({"n0": 2, "n1": 2})
    at_once = world.book(0, 3, 2)
    assert at_once is not None
    assert [place.node for place in at_once.plan] == ["n1"]
    short = world.free_capacity().lacking(PAIR, hour(0), hour(3))
    assert short is not None
    assert short.free == 0
    assert world.free_capacity().lacking(PAIR, START + QUARTER, hour(3)) is None


def test_no_booking_is_at_risk_and_none_is_moved() -> None:
    world = World({"n0": 2, "n1": 2})
    for start in (0, 1, 9):
        assert world.book(start, start + 1, 2) is not None
    unresponsive = Unresponsive(world.devices, records=world.records)
    outcome = unresponsive.keep()
    assert (outcome.plans, outcome.at_risk) == ({}, frozenset())


def test_a_running_booking_is_extended_on_its_nodes() -> None:
    world = World({"n0": 2})
    running = world.book(0, 3, 2)
    assert running is not None
    unresponsive = Unresponsive(world.devices, records=world.records)
    assert unresponsive.free_capacity(running).lacking(PAIR, hour(0), hour(6)) is None
