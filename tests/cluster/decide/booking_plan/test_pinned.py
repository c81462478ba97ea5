"""Where bookings stand once it is known where their pods run."""

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


def _promise(key: str, end: int, *plan: tuple[str, int]) -> PlannedBooking:
    return PlannedBooking(key, 0, end, sum(count for _, count in plan), is_whole=False, plan=plan)


def _pinned(
    devices: dict[str, int],
    *promises: PlannedBooking,
    pins: dict[str, dict[str, int]],
    blocks: tuple[tuple[str, int, int, int], ...] = (),
) -> list[tuple[str, bool, int]]:
    """(node, whether beside its place, devices) of what is pinned of the first booking, by node."""
    placed: list[Placed] = [each for promise in promises for each in promise.placed()]
    model_plan = ModelPlan(devices, placed, blocks)
    held = Pinned.of(model_plan, [one for one in promises if one.key in pins], pins)
    shift = PlanAttempt(model_plan, fixed_until=0)
    first = promises[0]
    found = pin(shift, first.placed(), pins[first.key], held)
    there = {item for node_plan in shift.plan().node_plans.values() for item in node_plan.items}
    assert {item for item, _ in found} <= there
    return sorted((node, item.serial >= OFF_PLAN, item.size) for item, node in found)


def test_a_single_device_follows_its_pod() -> None:
    found = _pinned({"n0": 1, "n1": 1}, _promise("b-1", 90, ("n0", 1)), pins={"b-1": {"n1": 1}})
    assert found == [("n1", False, 1)]


@pytest.mark.parametrize("devices", [0, 1])
def test_it_keeps_its_place_elsewhere_where_its_pod_runs_on_what_cannot_be_had(devices: int) -> None:
    # One of the node's devices has fallen ill; what is left is not enough for the two that run there.
    one, two = _promise("b-1", 90, ("n0", 2)), _promise("b-2", 90, ("n0", 1))
    found = _pinned({"n0": 3, "n1": devices}, one, two, pins={"b-1": {"n1": 1}, "b-2": {"n1": 1}})
    assert found == [("n1", True, 1)]


@pytest.mark.parametrize(("end", "is_beside"), [(100, False), (101, True)])
def test_it_keeps_its_place_elsewhere_where_maintenance_begins_before_its_end(
    end: int, *, is_beside: bool
) -> None:
    booking = _promise("b-1", end, ("n0", 1))
    found = _pinned({"n0": 1, "n1": 1}, booking, pins={"b-1": {"n1": 1}}, blocks=(("n1", *NIGHT, 1),))
    assert found == [("n1", is_beside, 1)]


def test_what_is_only_planned_on_the_node_of_its_pod_is_in_nobody_s_way() -> None:
    later = _promise("b-2", 90, ("n1", 1))
    found = _pinned({"n0": 1, "n1": 1}, _promise("b-1", 90, ("n0", 1)), later, pins={"b-1": {"n1": 1}})
    assert found == [("n1", False, 1)]


def test_of_two_only_as_many_follow_as_have_pods() -> None:
    found = _pinned({"n0": 2, "n1": 1}, _promise("b-1", 90, ("n0", 2)), pins={"b-1": {"n0": 1, "n1": 1}})
    assert found == [("n0", False, 1), ("n1", False, 1)]


def test_devices_beside_are_told_apart_from_each_other() -> None:
    booking = _promise("b-1", 90, ("n0", 3))
    model_plan = ModelPlan({"n0": 3, "n1": 0, "n2": 0}, booking.placed())
    pins = {"b-1": {"n1": 2, "n2": 1}}
    shift = PlanAttempt(model_plan, fixed_until=0)
    found = pin(shift, booking.placed(), pins["b-1"], Pinned.of(model_plan, [booking], pins))
    assert found == [
        (Item(0, "b-1", OFF_PLAN, 90, 2), "n1"),
        (Item(0, "b-1", OFF_PLAN + 2, 90, 1), "n2"),
    ]
    assert len(list(shift.plan().node_plans["n0"].items)) == 3
