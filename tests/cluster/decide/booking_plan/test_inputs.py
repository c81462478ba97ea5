"""The inputs of the placement checks of an instant."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from cluster.decide.booking_plan.inputs import PlanInputs, check_of, model_inputs, placement_checks
from cluster.decide.booking_plan.supply import NodeSupply, SupplySnapshot
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.holdings import assigned_devices
from cluster.objects.bookings import Booking
from cluster.objects.hold import Hold
from cluster.objects.inventory import Device
from cluster.objects.maintenance import MaintenanceBlock
from tests.fakes.objects import A100, A6000, EPOCH, PodBuilder, a100, a6000, a_booking, a_pod

HOUR = timedelta(hours=1)


def inputs_of(
    views: Mapping[str, tuple[Device, ...]],
    *bookings: Booking,
    pods: tuple[PodBuilder, ...] = (),
    cover: Mapping[str, Booking] | None = None,
    holds: Mapping[str, Hold] | None = None,
    blocks: Mapping[str, tuple[MaintenanceBlock, ...]] | None = None,
    gone: frozenset[str] = frozenset(),
) -> PlanInputs:
    """Nodes with these devices, and the pods that hold some of them."""
    held = [holding for pod in pods if (holding := assigned_devices(pod.obj))]
    instant = SupplySnapshot(
        now=EPOCH,
        views={
            name: NodeView(
                name,
                devices=devices,
                published=True,
                holdings=tuple(holding for holding in held if holding.node == name),
            )
            for name, devices in views.items()
        },
        pods={pod.obj.metadata.uid: pod.obj for pod in pods},
        cover=cover or {},
        namespaces={},
        home="gpu-booking",
        gone=gone,
    )
    known = {booking.name: booking for booking in bookings}
    return PlanInputs(instant=instant, bookings=known, blocks=blocks or {}, holds=holds or {})


def booked(model: str = A100, *, node: str = "n0") -> Booking:
    return a_booking(model=model, places=[{"node": node, "count": 1}])


_MIXED = {"n0": (a100(0), a100(1), a6000(2))}


# --- what checks are made of -------------------------------------------------------------------------
def test_checks_are_made_only_for_models_that_need_one() -> None:
    whole = a_booking(count=2, topology="single-node", places=[{"node": "n0", "count": 2}])
    single = a_booking("b-2", model=A6000, places=[{"node": "n0", "count": 1}])
    assert set(placement_checks(inputs_of(_MIXED, whole, single), [A100, A6000])) == {A100}
    assert placement_checks(inputs_of(_MIXED, whole, single), []) == {}


def test_a_model_s_devices_are_those_of_the_nodes_that_have_it() -> None:
    supplies = {"n0": NodeSupply({}, {A100: 0, A6000: 1}, {}), "n1": NodeSupply({}, {A100: 3}, {})}
    found = model_inputs(inputs_of({}), [A100, A6000], supplies)
    assert [one.devices for one in found] == [{"n0": 0, "n1": 3}, {"n0": 1}]


def test_devices_of_pods_and_devices_held_for_them_are_summed_by_node() -> None:
    hers = booked()
    holds = {"p": Hold(node="n0", devices=("GPU-1", "GPU-2")), "q": Hold(node="n1", devices=("GPU-3",))}
    inputs = inputs_of({}, hers, cover={"p": hers, "q": hers}, holds=holds)
    (found,) = model_inputs(inputs, [A100], {"n0": NodeSupply({}, {A100: 4}, {"b-1": 1})})
    assert found.pins == {"b-1": {"n0": 3, "n1": 1}}


def test_pods_of_one_booking_on_two_nodes_are_both_known() -> None:
    supplies = {name: NodeSupply({}, {A100: 2}, {"b-1": 1}) for name in ("n0", "n1")}
    (found,) = model_inputs(inputs_of({}, booked()), [A100], supplies)
    assert found.pins == {"b-1": {"n0": 1, "n1": 1}}


def test_a_hold_of_a_pod_without_a_booking_pins_nothing() -> None:
    (found,) = model_inputs(inputs_of({}, booked(), holds={"p": Hold(node="n0", devices=("G",))}), [A100], {})
    assert found.pins == {}


def test_pods_of_a_booking_of_another_model_or_of_an_unknown_booking_pin_nothing() -> None:
    supplies = {"n0": NodeSupply({}, {A100: 2}, {"b-1": 1, "unknown": 1})}
    (found,) = model_inputs(inputs_of({}, booked(A6000)), [A100], supplies)
    assert found.pins == {}


def test_a_hold_pins_only_the_model_of_the_pod_s_booking() -> None:
    hers, other = booked(), a_booking("b-2", model=A6000)
    holds = {"p": Hold(node="n0", devices=("G",)), "q": Hold(node="n1", devices=("H", "I"))}
    inputs = inputs_of({}, hers, other, cover={"p": hers, "q": other}, holds=holds)
    found = model_inputs(inputs, [A100, A6000], {})
    assert [one.pins for one in found] == [{"b-1": {"n0": 1}}, {"b-2": {"n1": 2}}]


def test_holds_do_not_change_the_caller_s_own_counts() -> None:
    hers = booked()
    counted = {"n0": NodeSupply({}, {A100: 4}, {"b-1": 1})}
    inputs = inputs_of({}, hers, cover={"p": hers}, holds={"p": Hold(node="n0", devices=("G",))})
    twice = [model_inputs(inputs, [A100], counted)[0].pins for _ in range(2)]
    assert twice == [{"b-1": {"n0": 2}}] * 2
    assert counted["n0"].pins == {"b-1": 1}


def test_the_inputs_of_several_models_come_in_the_order_asked_for() -> None:
    inputs = inputs_of({}, booked())
    assert [one.model for one in model_inputs(inputs, [A6000, A100], {})] == [A6000, A100]


def test_a_model_on_no_node_has_no_devices() -> None:
    (found,) = model_inputs(inputs_of({}, booked()), ["unknown"], {"n0": NodeSupply({}, {A100: 1}, {})})
    assert (found.devices, found.pins) == ({}, {})


def test_bookings_and_maintenance_are_passed_on_unchanged() -> None:
    block = MaintenanceBlock(start=EPOCH, end=EPOCH + HOUR)
    inputs = inputs_of({}, booked(), blocks={"n0": (block,)})
    (found,) = model_inputs(inputs, [A6000], {})
    assert (found.bookings, found.blocks) == (inputs.bookings, {"n0": (block,)})


# --- the checks themselves ---------------------------------------------------------------------------
def _whole(name: str = "b-1", node: str = "n0", **more: Any) -> Booking:
    places = [{"node": node, "count": 2}]
    return a_booking(name, count=2, topology="single-node", places=places, **more)


def test_a_check_knows_the_devices_available_at_the_instant() -> None:
    nodes = {
        "n0": (a100(0), a100(1)),
        "n1": (a100(0, "n1"), a100(1, "n1", health="unhealthy")),
        "n2": (a100(0, "n2"),),
    }
    plans = placement_checks(inputs_of(nodes, _whole(), gone=frozenset({"n2"})), [A100])[A100].plan.node_plans
    assert {name: plan.devices for name, plan in plans.items()} == {"n0": 2, "n1": 1, "n2": 0}


def test_a_check_knows_where_the_pods_of_a_booking_run() -> None:
    hers = _whole()
    pod = a_pod().of("alice").asks(1).on("n0", {"main": ("GPU-n0-0",)})
    idle = placement_checks(inputs_of(_MIXED, hers, pods=(pod,)), [A100])[A100]
    running = placement_checks(inputs_of(_MIXED, hers, pods=(pod,), cover={"uid-p": hers}), [A100])[A100]
    assert idle.pinned == {}
    assert [(item.size, node) for item, node in running.pinned["b-1"]] == [(2, "n0")]


def test_a_check_knows_the_holds_of_waiting_pods() -> None:
    hers, holds = _whole(), {"uid-p": Hold(node="n0", devices=("GPU-n0-0",))}
    check = placement_checks(inputs_of(_MIXED, hers, cover={"uid-p": hers}, holds=holds), [A100])[A100]
    assert list(check.pinned) == ["b-1"]


@pytest.mark.parametrize(("hours", "is_needed"), [(1, True), (0, False), (-1, False)])
def test_maintenance_that_is_not_over_at_the_instant_needs_a_check(hours: int, *, is_needed: bool) -> None:
    block = MaintenanceBlock(start=EPOCH - 2 * HOUR, end=EPOCH + hours * HOUR)
    found = placement_checks(inputs_of(_MIXED, booked(), blocks={"n0": (block,)}), [A100])
    assert (A100 in found) == is_needed


@pytest.mark.parametrize(("end", "is_needed"), [(timedelta(seconds=1), True), (timedelta(0), False)])
def test_a_booking_needs_a_check_up_to_but_not_at_its_end(end: timedelta, *, is_needed: bool) -> None:
    hers = _whole(start=EPOCH - HOUR, end=EPOCH + end)
    assert (A100 in placement_checks(inputs_of(_MIXED, hers), [A100])) == is_needed


def test_a_check_of_single_devices_is_made_only_on_request() -> None:
    inputs = inputs_of(_MIXED, booked())
    (found,) = model_inputs(inputs, [A100], {"n0": NodeSupply({}, {A100: 2}, {})})
    assert check_of(found, EPOCH) is None
    made = check_of(found, EPOCH, is_all=True)
    assert made is not None
    assert made.has("b-1", "n0") == 1


def test_each_model_that_needs_a_check_gets_its_own() -> None:
    other = _whole("b-2", "n1", model=A6000)
    nodes = {**_MIXED, "n1": (a6000(0, "n1"), a6000(1, "n1"))}
    found = placement_checks(inputs_of(nodes, _whole(), other), [A100, A6000])
    assert {model: sorted(check.placed) for model, check in found.items()} == {A100: ["b-1"], A6000: ["b-2"]}
    assert {model: sorted(check.plan.node_plans) for model, check in found.items()} == {
        A100: ["n0"],
        A6000: ["n0", "n1"],
    }
