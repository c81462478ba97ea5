"""Where a pod may be placed that is never evicted, and what the checks of an instant are made of."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from cluster.decide.booking_plan.inputs import PlanInputs, model_inputs, placement_checks
from cluster.decide.booking_plan.permanent_pods import PermanentPods
from cluster.decide.booking_plan.supply import NodeSupply, SupplySnapshot
from cluster.decide.ledger import NodeView
from cluster.objects.bookings import Booking
from cluster.objects.hold import Hold
from cluster.objects.inventory import Device
from tests.fakes.objects import A100, A6000, EPOCH, a100, a6000, a_booking


def _inputs(
    views: Mapping[str, tuple[Device, ...]],
    *bookings: Booking,
    cover: Mapping[str, Booking] | None = None,
    holds: Mapping[str, Hold] | None = None,
) -> PlanInputs:
    instant = SupplySnapshot(
        now=EPOCH,
        views={name: NodeView(name, devices=devices, published=True) for name, devices in views.items()},
        pods={},
        cover=cover or {},
        namespaces={},
        home="gpu-booking",
    )
    return PlanInputs(instant=instant, bookings={b.name: b for b in bookings}, blocks={}, holds=holds or {})


def _booked(model: str = A100, *, node: str = "n0") -> Booking:
    return a_booking(model=model, places=[{"node": node, "count": 1}])


_MIXED = {"n0": (a100(0), a100(1), a6000(2))}
"""One of the two A100 is booked."""


@pytest.mark.parametrize(
    ("devices", "models", "is_allowed"),
    [
        (1, {A100}, True),
        (2, {A100}, False),
        (2, {A6000}, True),
        (2, {A100, A6000}, False),
        (1, set(), True),
        (2, set(), False),
        (2, {"unknown"}, True),
    ],
)
def test_a_pod_may_stay_where_the_bookings_of_each_model_it_may_take_keep_their_places(
    devices: int, models: set[str], *, is_allowed: bool
) -> None:
    pods = PermanentPods(_inputs(_MIXED, _booked()))
    assert pods.allows_permanent("n0", devices, models) == is_allowed


def test_a_pod_may_stay_on_a_node_that_is_not_known() -> None:
    assert PermanentPods(_inputs(_MIXED, _booked())).allows_permanent("gone", 9, {A100})


def test_a_pod_may_stay_anywhere_where_nothing_is_booked() -> None:
    assert PermanentPods(_inputs(_MIXED)).allows_permanent("n0", 2, {A100})


def test_what_nodes_have_is_taken_from_the_caller_where_it_is_known() -> None:
    shares = {"n0": NodeSupply({}, {A100: 1}, {})}
    pods = PermanentPods(_inputs(_MIXED, _booked()), shares)
    assert not pods.allows_permanent("n0", 1, {A100})


def test_an_answer_is_the_same_when_it_is_asked_for_again() -> None:
    pods = PermanentPods(_inputs(_MIXED, _booked()))
    assert [pods.allows_permanent("n0", count, {A100}) for count in (2, 1, 2)] == [False, True, False]


# --- what checks are made of -------------------------------------------------------------------------
def test_a_check_is_made_only_of_models_that_need_one() -> None:
    whole = a_booking(count=2, topology="single-node", places=[{"node": "n0", "count": 2}])
    single = a_booking("b-2", model=A6000, places=[{"node": "n0", "count": 1}])
    assert set(placement_checks(_inputs(_MIXED, whole, single), [A100, A6000])) == {A100}
    assert placement_checks(_inputs(_MIXED, whole, single), []) == {}


def test_a_model_s_devices_are_those_of_the_nodes_that_have_it() -> None:
    shares = {"n0": NodeSupply({}, {A100: 0, A6000: 1}, {}), "n1": NodeSupply({}, {A100: 3}, {})}
    found = model_inputs(_inputs({}), [A100, A6000], shares)
    assert [one.devices for one in found] == [{"n0": 0, "n1": 3}, {"n0": 1}]


def test_what_pods_have_and_what_is_kept_for_them_are_summed_by_node() -> None:
    booked = _booked()
    holds = {"p": Hold(node="n0", devices=("GPU-1", "GPU-2")), "q": Hold(node="n1", devices=("GPU-3",))}
    inputs = _inputs({}, booked, cover={"p": booked, "q": booked}, holds=holds)
    (found,) = model_inputs(inputs, [A100], {"n0": NodeSupply({}, {A100: 4}, {"b-1": 1})})
    assert found.pins == {"b-1": {"n0": 3, "n1": 1}}


def test_pods_of_one_booking_on_two_nodes_are_both_known() -> None:
    shares = {name: NodeSupply({}, {A100: 2}, {"b-1": 1}) for name in ("n0", "n1")}
    (found,) = model_inputs(_inputs({}, _booked()), [A100], shares)
    assert found.pins == {"b-1": {"n0": 1, "n1": 1}}


def test_what_is_kept_for_a_pod_without_a_booking_pins_nothing() -> None:
    (found,) = model_inputs(_inputs({}, _booked(), holds={"p": Hold(node="n0", devices=("G",))}), [A100], {})
    assert found.pins == {}


def test_pods_of_a_booking_of_another_model_or_of_one_that_is_unknown_pin_nothing() -> None:
    shares = {"n0": NodeSupply({}, {A100: 2}, {"b-1": 1, "unknown": 1})}
    (found,) = model_inputs(_inputs({}, _booked(A6000)), [A100], shares)
    assert found.pins == {}


def test_an_instant_later_than_a_booking_s_end_frees_its_device() -> None:
    over = a_booking(start=EPOCH - timedelta(days=1), end=EPOCH, places=[{"node": "n0", "count": 1}])
    assert PermanentPods(_inputs(_MIXED, over)).allows_permanent("n0", 2, {A100})
