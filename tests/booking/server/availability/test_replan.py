"""Which bookings keep their place when nodes change, which move, and which are at risk (law L5)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import pytest

from booking.server.availability.calendars import calendar_of
from booking.server.availability.replan import Outcome, replanned
from booking.server.capacity.capacity import Capacity, Grant
from booking.server.records import Place, Record
from booking.server.store_records import Block
from cluster.fake.clock import START
from tests.booking.server.availability.world import a_block, hour
from tests.fakes.objects import A100
from tests.fakes.records import a_record

SECOND: Final = timedelta(seconds=1)
DAY: Final = timedelta(days=1)


def booked(
    name: str, *places: tuple[str, int], start: int = 2, end: int = 9, age: int = 1, **more: object
) -> Record:
    """Single devices, planned on these nodes; created so many days ago."""
    plan = tuple(Place(node, number) for node, number in places)
    made = {
        "id": name,
        "count": sum(number for _, number in places) or 1,
        "plan": plan,
        "created": START - age * DAY,
    }
    return a_record(hour(start), hour(end), **{**made, **more})


def whole(name: str, *nodes: str, size: int = 2, start: int = 2, end: int = 9, age: int = 1) -> Record:
    """All devices on one node."""
    places = [(node, size) for node in nodes]
    return booked(name, *places, start=start, end=end, age=age, count=size, topology="single-node")


def kept(
    *records: Record,
    pins: Mapping[str, Mapping[str, int]] | None = None,
    blocks: tuple[Block, ...] = (),
    now: int = 0,
    **devices: int,
) -> Outcome:
    """The outcome for bookings of A100s on nodes with so many of them."""
    capacity = Capacity({A100: devices}, pins=pins or {})
    return replanned(A100, calendar_of(records), capacity, hour(now), blocks=blocks)


def risks(*records: Record, **more: object) -> list[str]:
    return sorted(kept(*records, **more).at_risk)


def at_risk(records: list[Record], capacity: Capacity, now: datetime, *blocks: Block) -> set[str]:
    """Bookings at risk of all models."""
    outcomes = [
        replanned(model, calendar_of(r for r in records if r.model == model), capacity, now, blocks=blocks)
        for model in sorted({record.model for record in records})
    ]
    return {name for outcome in outcomes for name in outcome.at_risk}


def test_past_and_cancelled_bookings_are_not_at_risk_and_put_no_other_at_risk() -> None:
    capacity = Capacity({A100: {"n0": 1}})
    over = booked("over", start=0, end=5, age=9)
    gone = booked("gone", age=9, cancelled=hour(0))
    late = booked("late", start=4)
    assert at_risk([over, gone, late], capacity, hour(5)) == frozenset()
    assert at_risk([over, gone, late], capacity, hour(5) - SECOND) == {"late"}


def test_maintenance_puts_bookings_at_risk() -> None:
    capacity = Capacity({A100: {"n0": 1}})
    assert at_risk([booked("a")], capacity, hour(0), a_block("n0", 3, 4)) == {"a"}
    assert at_risk([booked("a")], capacity, hour(0), a_block("n0", 9, 12)) == frozenset()


def test_the_latest_booking_is_at_risk_and_among_simultaneous_ones_the_last_by_name() -> None:
    assert risks(booked("a", age=1), booked("b", age=2), n0=1) == ["a"]
    assert risks(booked("b"), booked("a"), n0=1) == ["b"]


def test_a_booking_with_running_pods_is_kept_before_earlier_ones() -> None:
    records = [booked("a", start=0, age=2), booked("b", start=0, age=1)]
    assert risks(*records, pins={"b": {"n0": 1}}, now=1, n0=1) == ["a"]
    assert risks(*records, pins={"a": {"n0": 1}, "b": {"n0": 1}}, now=1, n0=1) == ["b"]


def test_a_booking_that_is_too_large_is_skipped_for_a_later_smaller_one() -> None:
    records = [booked("a", age=3), booked("b", age=2, count=2), booked("c", age=1)]
    assert risks(*records, n0=2) == ["b"]


@pytest.mark.parametrize(("ages", "moves"), [((2, 1), "b"), ((1, 2), "a"), ((1, 1), "b")])
def test_when_a_node_has_too_few_devices_the_latest_booking_moves(ages: tuple[int, int], moves: str) -> None:
    records = [booked("a", ("n0", 1), age=ages[0]), booked("b", ("n0", 1), age=ages[1]), whole("w", "n1")]
    assert kept(*records, n0=1, n1=2, n2=1) == Outcome(plans={moves: (Place("n2", 1),)})


def test_only_as_many_bookings_move_as_must_and_from_every_node_with_too_few_devices() -> None:
    names = {"n0": "abc", "n1": "de"}
    records = [
        booked(key, (node, 1), age=ord("z") - ord(key)) for node, keys in names.items() for key in keys
    ]
    found = kept(*records, whole("w", "n2"), n0=1, n1=1, n2=2, n3=3)
    assert found == Outcome(plans=dict.fromkeys("bce", (Place("n3", 1),)))


def test_load_beyond_the_capacity_in_the_past_moves_no_booking() -> None:
    records = [
        booked("a", ("n0", 1), start=0, end=9),
        booked("b", ("n0", 1), start=0, end=3),
        whole("w", "n1"),
    ]
    assert kept(*records, now=3, n0=1, n1=2, n2=1) == Outcome()
    assert kept(*records, now=2, n0=1, n1=2, n2=1).plans.keys() == {"b"}


def test_an_earlier_booking_moves_before_one_with_running_pods() -> None:
    records = [booked("a", ("n0", 1), start=0, age=9), booked("b", ("n0", 1), start=0), whole("w", "n1")]
    found = kept(*records, pins={"b": {"n0": 1}}, now=1, n0=1, n1=2, n2=1)
    assert found == Outcome(plans={"a": (Place("n2", 1),)})


def test_a_booking_follows_its_pods_and_displaced_bookings_move() -> None:
    records = [booked("a", ("n0", 1), start=0), booked("b", ("n1", 1), age=9), whole("w", "n2")]
    found = kept(*records, pins={"a": {"n1": 1}}, now=1, n0=1, n1=1, n2=2)
    assert found == Outcome(plans={"a": (Place("n1", 1),), "b": (Place("n0", 1),)})


# --- ranked again ---------------------------------------------------------------------------------------
def test_when_not_all_find_a_place_the_latest_is_at_risk_and_loses_its_place() -> None:
    records = [whole("a", "n0", age=3), whole("b", "n1", age=2), whole("c", "n2", age=1)]
    assert kept(*records, n0=2, n1=2) == Outcome(plans={"c": ()}, at_risk=frozenset({"c"}))
    assert kept(records[0], whole("c", age=0), n0=2) == Outcome(at_risk=frozenset({"c"}))


def test_the_earlier_booking_gets_a_place_before_one_whose_node_still_exists() -> None:
    records = [whole("a", "n9", age=2), whole("b", "n0", age=1)]
    assert kept(*records, n0=2) == Outcome(plans={"a": (Place("n0", 2),), "b": ()}, at_risk=frozenset({"b"}))


def test_when_all_are_ranked_again_bookings_keep_their_planned_places_where_possible() -> None:
    records = [whole("a", "n1", age=3), whole("b", "n0", age=2), whole("c", age=1)]
    assert kept(*records, n0=2, n1=2) == Outcome(at_risk=frozenset({"c"}))


def test_when_all_are_ranked_again_earlier_bookings_may_move_for_later_ones() -> None:
    records = [
        booked("a", ("n0", 1), age=3),
        booked("b", ("n1", 1), age=2),
        whole("c", age=1),
        whole("d", age=0),
    ]
    found = kept(*records, n0=2, n1=2)
    assert found == Outcome(plans={"a": (Place("n1", 1),), "c": (Place("n0", 2),)}, at_risk=frozenset({"d"}))


def test_l5_pods_hold_their_devices_even_when_their_booking_has_lost_its_place() -> None:
    """Two of three devices of a node are gone: the pod has the last one, and the next booking none."""
    records = [whole("a", "n0", size=3, start=0, age=3), booked("b", ("n0", 1), age=2), booked("c", age=1)]
    found = kept(*records, pins={"a": {"n0": 1}}, now=1, n0=1, n1=1)
    assert found.at_risk == {"a", "c"}
    assert found.plans == {"a": (), "b": (Place("n1", 1),)}


def test_l5_pods_off_the_node_of_their_booking_hold_their_devices_besides_it() -> None:
    records = [whole("a", "n0", start=0, age=3), booked("b", ("n1", 1), age=2)]
    found = kept(*records, whole("x", age=0), pins={"a": {"n0": 1, "n1": 1}}, now=1, n0=2, n1=1)
    assert found.at_risk == {"b", "x"}


def test_when_all_are_ranked_again_a_booking_moves_to_where_its_pods_run() -> None:
    records = [whole("a", "n0", start=0), whole("x", age=0), whole("y", age=0)]
    found = kept(*records, pins={"a": {"n1": 1}}, now=1, n0=2, n1=2, n2=1)
    assert (found.plans["a"], len(found.at_risk)) == ((Place("n1", 2),), 1)


def test_when_all_are_ranked_again_no_booking_with_running_pods_moves_for_one_without() -> None:
    records = [booked("a", ("n0", 1), age=3), booked("b", ("n1", 1), age=3), whole("x", age=0)]
    assert kept(*records, n0=2, n1=2).at_risk == frozenset()
    pins = {"a": {"n0": 1}, "b": {"n1": 1}}
    assert kept(*records, pins=pins, n0=2, n1=2) == Outcome(at_risk=frozenset({"x"}))


def test_pods_on_a_node_that_is_gone_hold_nothing() -> None:
    records = [whole("a", "n9", start=0), whole("x", age=0)]
    assert kept(*records, pins={"a": {"n9": 2}}, now=1, n0=2) == Outcome(
        plans={"a": (Place("n0", 2),)}, at_risk=frozenset({"x"})
    )


def test_a_grant_of_maia_makes_its_device_unavailable_and_places_necessary() -> None:
    capacity = Capacity({A100: {"n0": 1, "n1": 1}}, grants={A100: (Grant("n0", 1, hour(5)),)})
    records = [booked("a", ("n0", 1), age=2), booked("b", ("n0", 1), start=5, age=1)]
    found = replanned(A100, calendar_of(records), capacity, hour(0))
    assert found == Outcome(plans={"a": (Place("n1", 1),)})
