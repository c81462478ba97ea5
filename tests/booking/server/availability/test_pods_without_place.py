"""Pods of a booking that cannot be kept run on: their devices are planned for no other booking."""

from booking.server.records import Place
from tests.booking.server.availability.world import World, hour
from tests.fakes.records import a_record


def _torn() -> World:
    """The pod of a booking of two on n1 has one of its GPUs; the other one is unhealthy."""
    world = World({"n0": 2, "n1": 1})
    world.records["b-torn"] = a_record(
        id="b-torn", start=hour(0), end=hour(9), count=2, topology="single-node", plan=()
    )
    world.records["b-pair"] = a_record(
        id="b-pair", start=hour(0), end=hour(9), count=2, topology="single-node", plan=(Place("n0", 2),)
    )
    world.pins = {"b-torn": {"n1": 1}, "b-pair": {"n0": 1}}
    return world


def test_l5_a_booking_planned_on_the_devices_of_such_pods_is_at_risk() -> None:
    world = _torn()
    assert world.keep().at_risk == {"b-torn"}
    world.records["b-one"] = a_record(id="b-one", start=hour(2), end=hour(4), plan=(Place("n1", 1),))
    assert world.keep().at_risk == {"b-torn", "b-one"}


def test_l5_a_pod_off_the_node_of_its_booking_displaces_other_bookings_too() -> None:
    world = World({"n0": 2, "n1": 1})
    world.records["b-pair"] = a_record(
        id="b-pair", start=hour(0), end=hour(9), count=2, topology="single-node", plan=(Place("n0", 2),)
    )
    world.records["b-one"] = a_record(id="b-one", start=hour(2), end=hour(4), plan=(Place("n1", 1),))
    world.pins = {"b-pair": {"n0": 1}}
    assert world.keep().at_risk == frozenset()
    world.pins = {"b-pair": {"n0": 1, "n1": 1}}
    assert world.keep().at_risk == {"b-one"}
