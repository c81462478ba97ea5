"""Where a pod that is never evicted may be placed."""

from datetime import timedelta

import pytest

from cluster import names
from cluster.decide.booking_plan.permanent_pods import PermanentPods
from cluster.decide.booking_plan.supply import NodeSupply
from tests.cluster.decide.booking_plan.test_inputs import booked, inputs_of
from tests.fakes.objects import A100, A6000, EPOCH, a100, a6000, a_booking

_MIXED = {"n0": (a100(0), a100(1), a6000(2))}
"""One of the two A100 is booked."""


GPU = names.GPU_RESOURCE


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
def test_a_pod_may_stay_where_bookings_of_every_model_it_may_take_keep_their_places(
    devices: int, models: set[str], *, is_allowed: bool
) -> None:
    pods = PermanentPods(inputs_of(_MIXED, booked()))
    assert pods.allows_permanent("n0", {GPU: devices}, models) == is_allowed


def test_a_pod_may_stay_on_an_unknown_node() -> None:
    assert PermanentPods(inputs_of(_MIXED, booked())).allows_permanent("gone", {GPU: 9}, {A100})


def test_a_pod_may_stay_anywhere_where_nothing_is_booked() -> None:
    assert PermanentPods(inputs_of(_MIXED)).allows_permanent("n0", {GPU: 2}, {A100})


def test_the_caller_s_supply_of_nodes_is_used_where_it_is_known() -> None:
    supplies = {"n0": NodeSupply({}, {A100: 1}, {})}
    pods = PermanentPods(inputs_of(_MIXED, booked()), supplies)
    assert not pods.allows_permanent("n0", {GPU: 1}, {A100})


def test_a_repeated_question_gets_the_same_answer() -> None:
    pods = PermanentPods(inputs_of(_MIXED, booked()))
    assert [pods.allows_permanent("n0", {GPU: count}, {A100}) for count in (2, 1, 2)] == [
        False,
        True,
        False,
    ]


def test_the_device_of_a_booking_is_free_after_its_end() -> None:
    over = a_booking(start=EPOCH - timedelta(days=1), end=EPOCH, places=[{"node": "n0", "count": 1}])
    assert PermanentPods(inputs_of(_MIXED, over)).allows_permanent("n0", {GPU: 2}, {A100})
