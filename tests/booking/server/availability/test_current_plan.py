"""The places of all bookings at one instant: as planned, corrected by where pods run and by lost nodes."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

import pytest

from booking.server.availability.calendars import calendar_of, planned_booking, seconds
from booking.server.availability.current_plan import FIXED_AHEAD, CurrentPlan, current_plan_of, follow
from booking.server.records import Place, Record
from cluster.decide.booking_plan import OFF_PLAN, STEPS, Item, PlannedBooking
from tests.booking.server.availability.world import hour
from tests.fakes.records import a_record

SECOND: Final = timedelta(seconds=1)
TWO_NODES: Final = {"n0": 2, "n1": 2}


def booked(name: str, *places: tuple[str, int], start: int = 0, end: int = 9, **more: object) -> Record:
    """Single devices, where they are planned."""
    count = sum(number for _, number in places) or 1
    plan = tuple(Place(node, number) for node, number in places)
    return a_record(hour(start), hour(end), **{"id": name, "count": count, "plan": plan, **more})


def whole(name: str, *nodes: str, size: int = 2, start: int = 0, end: int = 9) -> Record:
    """All devices on one node."""
    places = [(node, size) for node in nodes]
    return booked(name, *places, start=start, end=end, count=size, topology="single-node")


def plan_of(
    records: Iterable[Record],
    pins: Mapping[str, Mapping[str, int]] | None = None,
    *,
    devices: Mapping[str, int] | None = None,
    now: int = 1,
    changing: Record | None = None,
) -> CurrentPlan:
    calendar = calendar_of(records)
    model_plan = calendar.plan(devices or TWO_NODES, ())
    return current_plan_of(model_plan, calendar, pins or {}, hour(now), changing=changing)


def on(current_plan: CurrentPlan, at: int = 2) -> dict[str, dict[str, int]]:
    """Node -> booking -> devices that it has there at an hour; pods off their plan with a star."""
    found: dict[str, dict[str, int]] = {}
    for node, node_plan in current_plan.model_plan.node_plans.items():
        there: dict[str, int] = {}
        for item in node_plan.overlapping(seconds(hour(at)), seconds(hour(at)) + 1):
            key = item.key + ("*" if item.serial >= OFF_PLAN else "")
            there[key] = there.get(key, 0) + item.size
        found[node] = there
    return found


def items_of(record: Record) -> list[Item]:
    return [item for item, _ in planned_booking(record).placed()]


def fixed(current_plan: CurrentPlan) -> list[tuple[str, int]]:
    return sorted((item.key, item.serial) for item in current_plan.fixed)


# --- where items must be so that pods are among them ----------------------------------------------------
def where(booking: PlannedBooking, here: Mapping[int, str], pods: Mapping[str, int]) -> dict[int, str]:
    """Serial -> node at which the item must be; ``here``: where it is planned."""
    items = [item for item, _ in booking.placed()]
    bound = follow(booking, {items[serial]: node for serial, node in here.items()}, pods)
    return {item.serial: node for item, node in bound.items()}


@pytest.mark.parametrize(
    ("here", "pods", "expected"),
    [
        ({0: "n0"}, {}, {0: "n0"}),
        ({}, {}, {}),
        ({0: "n0"}, {"n0": 1, "n1": 2}, {0: "n0"}),
        ({0: "n0"}, {"n1": 1}, {0: "n1"}),
        ({}, {"n1": 1, "n2": 2}, {0: "n2"}),
        ({}, {"n2": 1, "n1": 1}, {0: "n1"}),
    ],
    ids=["planned", "nowhere", "some run there", "none run there", "where most run", "the first of equals"],
)
def test_a_booking_of_one_node_lies_where_its_pods_run(
    here: Mapping[int, str], pods: Mapping[str, int], expected: Mapping[int, str]
) -> None:
    assert where(planned_booking(whole("b", size=3)), here, pods) == expected


@pytest.mark.parametrize(
    ("here", "pods", "expected"),
    [
        ({}, {}, {}),
        ({0: "n0", 1: "n0", 2: "n1"}, {}, {0: "n0", 1: "n0", 2: "n1"}),
        ({0: "n0", 1: "n0", 2: "n1"}, {"n0": 1, "n1": 1}, {0: "n0", 1: "n0", 2: "n1"}),
        ({0: "n0", 1: "n0", 2: "n0"}, {"n1": 1}, {0: "n0", 1: "n0", 2: "n1"}),
        ({0: "n0", 1: "n0", 2: "n0"}, {"n0": 1, "n1": 2}, {0: "n0", 1: "n1", 2: "n1"}),
        ({0: "n0", 1: "n0", 2: "n0"}, {"n2": 1, "n1": 1}, {0: "n0", 1: "n2", 2: "n1"}),
        ({0: "n0"}, {"n1": 9}, {0: "n1", 1: "n1", 2: "n1"}),
        ({0: "n0"}, {"n1": 1}, {0: "n0", 2: "n1"}),
        ({0: "n0", 1: "n1"}, {"n1": 2}, {0: "n0", 1: "n1", 2: "n1"}),
        ({0: "n0", 1: "n0", 2: "n1"}, {"n1": 2}, {0: "n0", 1: "n1", 2: "n1"}),
    ],
    ids=str,
)
def test_single_devices_lie_where_pods_run_and_the_remaining_ones_where_they_are_planned(
    here: Mapping[int, str], pods: Mapping[str, int], expected: Mapping[int, str]
) -> None:
    assert where(planned_booking(booked("b", count=3)), here, pods) == expected


def test_only_the_given_items_follow_the_pods() -> None:
    booking = planned_booking(booked("b", count=3))
    first, _, last = (item for item, _ in booking.placed())
    assert follow(booking, {first: "n0"}, {"n1": 9}, [last]) == {last: "n1"}


def test_a_booking_that_begins_within_a_minute_is_not_moved_for_others() -> None:
    assert timedelta(seconds=60) == FIXED_AHEAD
    assert plan_of([]).fixed_until == seconds(hour(1)) + 60
    for later, is_moved in ((60, False), (61, True)):
        start = hour(1) + later * SECOND
        records = [booked(name, (node, 1), start=1) for name, node in (("a", "n0"), ("b", "n1"))]
        calendar = calendar_of([a_record(start, hour(9), id=r.id, plan=r.plan) for r in records])
        current_plan = current_plan_of(calendar.plan(TWO_NODES, ()), calendar, {}, hour(1))
        pair = items_of(whole("new", start=2))
        assert current_plan.attempt(STEPS).place_all(pair) == is_moved


def test_fixed_bookings_are_not_moved_in_an_attempt() -> None:
    records = [booked("a", ("n0", 1), start=2), booked("b", ("n1", 1), start=2)]
    pair = items_of(whole("new", start=2))
    assert plan_of(records).attempt(STEPS).place_all(pair)
    pins = {"a": {"n0": 1}, "b": {"n1": 1}}
    assert not plan_of(records, pins).attempt(STEPS).place_all(pair)


def test_when_only_one_of_several_bookings_can_follow_its_pods_it_is_the_first_by_name() -> None:
    keys = [f"b-{number}" for number in range(8)]
    records = [whole(key, f"n{number}") for number, key in enumerate(keys)]
    devices = {f"n{number}": 2 for number in range(9)}
    found = plan_of(reversed(records), {key: {"n8": 1} for key in keys}, devices=devices)
    assert set(found.placed) == {"b-0"}


def test_pods_on_unknown_nodes_and_of_unknown_bookings_change_nothing() -> None:
    current_plan = plan_of([booked("a", ("n0", 1))], {"a": {"n9": 1}, "gone": {"n0": 1}})
    assert on(current_plan) == {"n0": {"a": 1}, "n1": {}}
    assert (current_plan.placed, current_plan.fixed) == ({}, frozenset())


# --- the booking that is being changed ------------------------------------------------------------------
def test_the_booking_that_is_changed_takes_no_place_and_the_nodes_of_its_pods_are_known() -> None:
    changing = booked("a", ("n0", 2))
    current_plan = plan_of(
        [changing, booked("b", ("n1", 1))], {"a": {"n1": 1}, "b": {"n1": 1}}, changing=changing
    )
    assert on(current_plan) == {"n0": {}, "n1": {"b": 1}}
    assert current_plan.pods == {"n1": 1}
    assert fixed(current_plan) == [("b", 0)]


def test_pods_of_the_booking_that_is_changed_move_no_other_and_other_pods_still_count() -> None:
    changing = booked("a", ("n0", 1))
    records = [changing, booked("b", ("n0", 1)), booked("c", ("n0", 1))]
    pins = {"a": {"n0": 1}, "b": {"n1": 1}, "c": {"n1": 1}}
    assert on(plan_of(records, pins, changing=changing)) == {"n0": {}, "n1": {"b": 1, "c": 1}}


def test_a_changed_booking_without_a_place_or_not_stored_takes_nothing() -> None:
    lost, new = booked("a", ("n9", 1)), booked("new", ("n0", 1))
    other = booked("b", ("n0", 1))
    for changing in (lost, new):
        current_plan = plan_of([lost, other] if changing is lost else [other], changing=changing)
        assert on(current_plan) == {"n0": {"b": 1}, "n1": {}}
        assert (current_plan.placed, current_plan.pods) == ({}, {})


@pytest.mark.parametrize(("later", "has_begun"), [(-60, True), (60, True), (61, False)])
def test_a_booking_that_begins_within_a_minute_counts_as_begun(later: int, *, has_begun: bool) -> None:
    changing = a_record(hour(1) + later * SECOND, hour(9), id="a")
    assert plan_of([changing], changing=changing).has_begun == has_begun
    assert not plan_of([changing]).has_begun


# --- bounds of the booking that is being changed --------------------------------------------------------
def bounds(changing: Record, pods: Mapping[str, int] | None = None, *, now: int = 1) -> list[list[str]]:
    """The nodes to which its items are bound in each round."""
    pins = {changing.id: pods} if pods else {}
    found = plan_of([changing], pins, now=now, changing=changing).bounds(planned_booking(changing))
    return [sorted(only.values()) for only in found]


def test_a_booking_that_has_not_begun_may_lie_anywhere_in_the_last_round() -> None:
    assert bounds(booked("a", ("n0", 1), ("n1", 1), start=2)) == [["n0", "n1"], []]
    assert bounds(booked("a", ("n0", 1), start=2), {"n1": 1}) == [["n1"], []]


def test_devices_on_existing_nodes_stay_when_others_of_the_booking_are_lost() -> None:
    found = plan_of([booked("a", ("n1", 1), ("n9", 1)), booked("b", ("n1", 1))])
    assert on(found) == {"n0": {"a": 1}, "n1": {"a": 1, "b": 1}}
    assert found.moved({}) == {"a": (Place("n0", 1), Place("n1", 1))}


def test_bookings_without_a_place_are_placed_by_pods_then_start_then_name() -> None:
    def first(*records: Record, pins: Mapping[str, Mapping[str, int]] | None = None) -> set[str]:
        return set(plan_of(records, pins, devices={"n0": 1}).placed)

    assert first(booked("b"), booked("a")) == {"a"}
    assert first(booked("b", start=0), booked("a", start=1)) == {"b"}
    assert first(booked("b", start=1), booked("a", start=0), pins={"b": {"n0": 1}}) == {"b"}


def test_a_booking_without_a_place_goes_where_its_pods_run() -> None:
    found = plan_of([whole("a", "n9"), booked("b", ("n0", 1))], {"a": {"n1": 1}})
    assert on(found) == {"n0": {"b": 1}, "n1": {"a": 2}}
    crowded = plan_of([whole("a"), booked("b", ("n0", 1), start=0)], {"a": {"n0": 1}})
    assert on(crowded) == {"n0": {"a*": 1, "b": 1}, "n1": {"a": 2}}
    assert (fixed(crowded), crowded.moved({})) == ([("a", OFF_PLAN)], {"a": (Place("n1", 2),)})


def test_l5_pods_of_a_booking_without_a_place_hold_their_devices() -> None:
    records = [whole("a", size=2), booked("b", ("n0", 1)), booked("c", ("n1", 1))]
    found = plan_of(records, {"a": {"n1": 1, "n9": 1}})
    assert on(found) == {"n0": {"b": 1}, "n1": {"a*": 1, "c": 1}}
    assert (found.placed, fixed(found)) == ({}, [("a", OFF_PLAN)])


def test_bookings_that_have_not_begun_move_for_one_without_a_place() -> None:
    records = [whole("a", start=2), booked("b", ("n0", 1), start=2), booked("c", ("n1", 1), start=2)]
    found = plan_of(records)
    assert on(found, at=3) == {"n0": {"a": 2}, "n1": {"b": 1, "c": 1}}
    assert found.moved({}) == {"a": (Place("n0", 2),), "b": (Place("n1", 1),)}
    begun = plan_of(records, now=2)
    assert on(begun, at=3) == {"n0": {"b": 1}, "n1": {"c": 1}}


def test_no_booking_with_pods_moves_for_one_without_a_place() -> None:
    lost = whole("a", start=2)
    records = [lost, booked("b", ("n0", 1), start=2), booked("c", ("n1", 1), start=2)]
    assert plan_of(records).placed.keys() == {"a", "b"}
    assert plan_of(records, {"b": {"n0": 1}, "c": {"n1": 1}}).placed == {}


def test_l5_pods_of_a_booking_without_a_place_are_not_moved_for_the_next_one() -> None:
    records = [
        whole("a", size=3, start=2),
        booked("b", ("n0", 1)),
        booked("c", ("n1", 2)),
        whole("z", start=2),
    ]
    found = plan_of(records, {"a": {"n0": 1}}, devices={"n0": 3, "n1": 3})
    assert on(found) == {"n0": {"a*": 1, "b": 1}, "n1": {"c": 2}}
    assert found.placed == {}


def test_a_booking_that_lost_a_node_keeps_its_other_devices_and_its_lost_ones_follow_the_pods() -> None:
    devices = {"n0": 2, "n1": 2, "n2": 1}
    found = plan_of([booked("a", ("n0", 1), ("n9", 1))], {"a": {"n1": 1}}, devices=devices)
    assert on(found) == {"n0": {"a": 1}, "n1": {"a": 1}, "n2": {}}


def test_no_place_is_sought_for_the_booking_that_is_changed() -> None:
    lost, other = whole("a", "n9"), booked("b", ("n8", 1))
    found = plan_of([lost, other], changing=lost)
    assert on(found) == {"n0": {"b": 1}, "n1": {}}
    assert set(found.placed) == {"b"}


# --- what an attempt has moved --------------------------------------------------------------------------
def test_moves_of_an_attempt_are_reported_together_with_bookings_that_follow_their_pods() -> None:
    records = [booked("a", ("n0", 1)), booked("b", ("n0", 1), start=2), booked("c", ("n1", 1), start=2)]
    current_plan = plan_of(records, {"a": {"n1": 1}})
    (b,), (c,) = (items_of(record) for record in records[1:])
    assert current_plan.moved({b: "n1", c: "n1"}) == {"a": (Place("n1", 1),), "b": (Place("n1", 1),)}


def test_a_booking_moved_back_to_its_stored_place_is_not_reported() -> None:
    records = [booked("a", ("n0", 2))]
    current_plan = plan_of(records, {"a": {"n1": 1}})
    items = items_of(records[0])
    assert current_plan.moved(dict.fromkeys(items, "n0")) == {}
    assert current_plan.moved({items[0]: "n1"}) == {"a": (Place("n1", 2),)}
