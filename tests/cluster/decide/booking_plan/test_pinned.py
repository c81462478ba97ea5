"""Where bookings are placed once it is known where their pods run."""

import pytest

from cluster.decide.booking_plan import (
    OFF_PLAN,
    Item,
    ModelPlan,
    Pinned,
    Placed,
    PlanAttempt,
    PlannedBooking,
    pin,
)

NIGHT = (100, 200)
"""Maintenance."""


def _planned(key: str, end: int, *plan: tuple[str, int]) -> PlannedBooking:
    return PlannedBooking(key, 0, end, sum(count for _, count in plan), is_whole=False, plan=plan)


def _pinned(
    devices: dict[str, int],
    *planned_bookings: PlannedBooking,
    pins: dict[str, dict[str, int]],
    blocks: tuple[tuple[str, int, int, int], ...] = (),
) -> list[tuple[str, bool, int]]:
    """(node, whether off the plan, devices) of each pinned item of the first booking, by node."""
    placed: list[Placed] = [each for planned in planned_bookings for each in planned.placed()]
    model_plan = ModelPlan(devices, placed, blocks)
    held = Pinned.of(model_plan, [one for one in planned_bookings if one.key in pins], pins)
    attempt = PlanAttempt(model_plan, fixed_until=0)
    first = planned_bookings[0]
    found = pin(attempt, first.placed(), pins[first.key], held)
    there = {item for node_plan in attempt.plan().node_plans.values() for item in node_plan.items}
    assert {item for item, _ in found} <= there
    return sorted((node, item.serial >= OFF_PLAN, item.size) for item, node in found)


def test_a_single_device_follows_its_pod() -> None:
    found = _pinned({"n0": 1, "n1": 1}, _planned("b-1", 90, ("n0", 1)), pins={"b-1": {"n1": 1}})
    assert found == [("n1", False, 1)]


@pytest.mark.parametrize("devices", [0, 1])
def test_a_single_device_keeps_its_place_where_its_pod_s_node_lacks_healthy_devices(devices: int) -> None:
    # One of the node's devices has become unhealthy; what is left is not enough for the two that run there.
    one, two = _planned("b-1", 90, ("n0", 2)), _planned("b-2", 90, ("n0", 1))
    found = _pinned({"n0": 3, "n1": devices}, one, two, pins={"b-1": {"n1": 1}, "b-2": {"n1": 1}})
    assert found == [("n1", True, 1)]


@pytest.mark.parametrize(("end", "is_beside"), [(100, False), (101, True)])
def test_a_single_device_keeps_its_place_where_its_pod_s_node_has_maintenance_before_its_end(
    end: int, *, is_beside: bool
) -> None:
    booking = _planned("b-1", end, ("n0", 1))
    found = _pinned({"n0": 1, "n1": 1}, booking, pins={"b-1": {"n1": 1}}, blocks=(("n1", *NIGHT, 1),))
    assert found == [("n1", is_beside, 1)]


def test_another_booking_s_plan_does_not_keep_a_single_device_from_following_its_pod() -> None:
    later = _planned("b-2", 90, ("n1", 1))
    found = _pinned({"n0": 1, "n1": 1}, _planned("b-1", 90, ("n0", 1)), later, pins={"b-1": {"n1": 1}})
    assert found == [("n1", False, 1)]


def test_only_as_many_single_devices_follow_as_have_pods() -> None:
    found = _pinned({"n0": 2, "n1": 1}, _planned("b-1", 90, ("n0", 2)), pins={"b-1": {"n0": 1, "n1": 1}})
    assert found == [("n0", False, 1), ("n1", False, 1)]


def test_off_plan_devices_on_two_nodes_are_distinct_items() -> None:
    booking = _planned("b-1", 90, ("n0", 3))
    model_plan = ModelPlan({"n0": 3, "n1": 0, "n2": 0}, booking.placed())
    pins = {"b-1": {"n1": 2, "n2": 1}}
    attempt = PlanAttempt(model_plan, fixed_until=0)
    found = pin(attempt, booking.placed(), pins["b-1"], Pinned.of(model_plan, [booking], pins))
    assert found == [
        (Item(0, "b-1", OFF_PLAN, 90, 2), "n1"),
        (Item(0, "b-1", OFF_PLAN + 2, 90, 1), "n2"),
    ]
    assert len(list(attempt.plan().node_plans["n0"].items)) == 3


# --- a booking as items --------------------------------------------------------------------------------
def _booking(count: int, *plan: tuple[str, int], is_whole: bool = False) -> PlannedBooking:
    return PlannedBooking("b-1", 0, 90, count, is_whole=is_whole, plan=plan)


# --- pods that a node fits -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("devices", "start", "end", "fits"),
    [(2, 0, 50, True), (1, 0, 50, False), (1, 0, 20, True), (1, 30, 50, True), (1, 29, 50, False)],
)
def test_a_node_fits_its_pods_where_it_has_devices_for_all_of_them_at_every_instant(
    devices: int, start: int, end: int, *, fits: bool
) -> None:
    one = PlannedBooking("b-1", 0, 90, 1, is_whole=False)
    two = PlannedBooking("b-2", 20, 30, 1, is_whole=False)
    pinned = Pinned.of(ModelPlan({"n0": devices}), [one, two], {"b-1": {"n0": 1}, "b-2": {"n0": 1}})
    assert pinned.fits("n0", start, end) == fits


def test_a_node_without_pods_fits_even_without_devices_or_during_maintenance() -> None:
    pinned = Pinned.of(ModelPlan({"n0": 0, "n1": 1}, blocks=[("n1", *NIGHT, 1)]), [], {})
    assert pinned.fits("n0", 0, 90)
    assert pinned.fits("n1", 0, 300)


# --- whole bookings ------------------------------------------------------------------------------------
def _whole(
    devices: dict[str, int], pods: dict[str, int], *others: tuple[Item, str], node: str = "n0"
) -> tuple[list[Placed], PlanAttempt]:
    """The pinned items of a booking of two devices on one node, and the attempt."""
    booking = _booking(2, (node, 2), is_whole=True)
    model_plan = ModelPlan(devices, [*booking.placed(), *others])
    attempt = PlanAttempt(model_plan, fixed_until=0)
    return pin(attempt, booking.placed(), pods, Pinned.of(model_plan, [booking], {"b-1": pods})), attempt


_ALL_OF_IT = Item(0, "b-1", 0, 90, 2)


def _there(attempt: PlanAttempt, node: str) -> list[Item]:
    node_plan = attempt.node_plan(node)
    assert node_plan is not None
    return list(node_plan.items)


def test_a_whole_booking_stays_with_its_pods_on_its_own_node() -> None:
    found, attempt = _whole({"n0": 2, "n1": 2}, {"n0": 1})
    assert found == [(_ALL_OF_IT, "n0")]
    assert dict(attempt.places) == {}


def test_a_whole_booking_follows_its_pods_where_there_is_room_for_all_of_it() -> None:
    found, attempt = _whole({"n0": 2, "n1": 2}, {"n1": 1})
    assert found == [(_ALL_OF_IT, "n1")]
    assert (_there(attempt, "n0"), _there(attempt, "n1")) == ([], [_ALL_OF_IT])


def test_a_whole_booking_follows_to_the_node_with_most_of_its_pods_then_the_first_by_name() -> None:
    nodes = {"n0": 2, "n1": 3, "n2": 3}
    stray = Item(0, "b-1", OFF_PLAN, 90, 1)
    assert _whole(nodes, {"n1": 1, "n2": 2})[0] == [(_ALL_OF_IT, "n2"), (stray, "n1")]
    beside = Item(0, "b-1", OFF_PLAN + 1, 90, 1)
    assert _whole(nodes, {"n2": 1, "n1": 1})[0] == [(_ALL_OF_IT, "n1"), (beside, "n2")]


def test_a_whole_booking_keeps_its_place_without_room_and_its_pods_count_off_the_plan() -> None:
    found, attempt = _whole({"n0": 2, "n1": 1}, {"n1": 1})
    stray = Item(0, "b-1", OFF_PLAN, 90, 1)
    assert found == [(stray, "n1")]
    assert (_there(attempt, "n0"), _there(attempt, "n1")) == ([_ALL_OF_IT], [stray])


def test_devices_of_other_bookings_are_no_room_for_a_whole_booking() -> None:
    other = Item(80, "b-2", 0, 99, 1)
    found, _ = _whole({"n0": 2, "n1": 2}, {"n1": 1}, (other, "n1"))
    assert found == [(Item(0, "b-1", OFF_PLAN, 90, 1), "n1")]


def test_a_pod_on_an_unknown_node_pins_nothing() -> None:
    found, attempt = _whole({"n0": 2}, {"gone": 1})
    assert found == []
    assert _there(attempt, "n0") == [_ALL_OF_IT]


# --- single devices ------------------------------------------------------------------------------------
def test_pods_on_their_own_nodes_pin_as_many_items_as_they_have_devices() -> None:
    found = _pinned({"n0": 3}, _planned("b-1", 90, ("n0", 3)), pins={"b-1": {"n0": 2}})
    assert found == [("n0", False, 1), ("n0", False, 1)]


def test_more_pods_than_the_booking_has_devices_pin_no_more_than_it_has() -> None:
    found = _pinned({"n0": 1, "n1": 5}, _planned("b-1", 90, ("n0", 1)), pins={"b-1": {"n1": 3}})
    assert found == [("n1", False, 1)]


def test_single_devices_do_not_follow_pods_to_an_unknown_node() -> None:
    found = _pinned({"n0": 1}, _planned("b-1", 90, ("n0", 1)), pins={"b-1": {"gone": 1}})
    assert found == []


def test_items_whose_old_node_has_no_pods_follow_and_leave_it() -> None:
    booking = _planned("b-1", 90, ("n0", 2))
    model_plan = ModelPlan({"n0": 2, "n1": 2}, booking.placed())
    pins = {"b-1": {"n0": 1, "n1": 1}}
    attempt = PlanAttempt(model_plan, fixed_until=0)
    first, second = (item for item, _ in booking.placed())
    found = pin(attempt, booking.placed(), pins["b-1"], Pinned.of(model_plan, [booking], pins))
    assert found == [(first, "n0"), (second, "n1")]
    assert (_there(attempt, "n0"), _there(attempt, "n1")) == ([first], [second])


def test_items_follow_their_pods_in_the_order_of_the_nodes() -> None:
    booking = _planned("b-1", 90, ("n0", 2))
    model_plan = ModelPlan({"n0": 2, "n1": 1, "n2": 1}, booking.placed())
    pods = {"n2": 1, "n1": 1}
    attempt = PlanAttempt(model_plan, fixed_until=0)
    first, second = (item for item, _ in booking.placed())
    found = pin(attempt, booking.placed(), pods, Pinned.of(model_plan, [booking], {"b-1": pods}))
    assert found == [(second, "n1"), (first, "n2")]


def test_a_pod_on_its_booking_s_planned_node_stays_there_even_in_maintenance() -> None:
    booking = _planned("b-1", 190, ("n0", 1), ("n1", 1))
    blocks = (("n0", *NIGHT, 1),)
    assert _pinned({"n0": 1, "n1": 1}, booking, pins={"b-1": {"n0": 1}}, blocks=blocks) == [("n0", False, 1)]
