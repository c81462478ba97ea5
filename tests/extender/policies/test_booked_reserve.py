"""booked-reserve: pods that may be evicted go where no booking will need the devices soon."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.decide.request import gpu_request_of
from extender.policies.binpack import binpack
from extender.policies.booked_reserve import HALF, booked_reserve
from extender.wire import MAX_SCORE
from tests.extender.policies.node_views import asking, fills, plain, view
from tests.fakes.objects import A100, A6000, a100, a6000, a_pod

NEEDS = st.integers(1, 4)
PLANNED = st.integers(0, 16)


@given(NEEDS, PLANNED, PLANNED, st.data())
def test_a_node_where_the_pod_can_stay_beats_every_node_where_it_takes_planned_devices(
    need: int, planned_here: int, planned_there: int, data: st.DataObject
) -> None:
    here, there = data.draw(fills(need)), data.draw(fills(need))
    taken_here = max(0, need - max(0, here[0] - here[1] - planned_here))
    taken_there = max(0, need - max(0, there[0] - there[1] - planned_there))
    request = asking(need)
    score_here = booked_reserve(request, plain(*here), {A100: planned_here})
    score_there = booked_reserve(request, plain(*there), {A100: planned_there})

    if taken_here == 0 < taken_there:
        assert score_here > score_there
    if taken_here <= taken_there and taken_there:
        assert score_here >= score_there


@given(NEEDS, st.data())
def test_without_planned_devices_the_order_is_that_of_binpack(need: int, data: st.DataObject) -> None:
    one, other = plain(*data.draw(fills(need))), plain(*data.draw(fills(need)))
    request = asking(need)

    if binpack(request, one, {}) >= binpack(request, other, {}):
        assert booked_reserve(request, one, {}) >= booked_reserve(request, other, {A6000: 3})


@pytest.mark.parametrize(
    ("used", "planned", "score"),
    [(9, 0, 10), (0, 0, 5), (5, 0, 8), (9, 1, 4)],
    ids=["filled up", "empty", "half full", "filled up with a planned device"],
)
def test_the_upper_half_of_the_scores_is_binpack_and_the_lower_half_takes_planned_devices(
    used: int, planned: int, score: int
) -> None:
    assert booked_reserve(asking(1), plain(10, used), {A100: planned}) == score


def test_a_pod_takes_planned_devices_if_no_model_alone_has_enough_others() -> None:
    mixed = view((a100(0, "n"), a100(1, "n"), a6000(2, "n"), a6000(3, "n")))
    planned = {A100: 1, A6000: 1}
    either = gpu_request_of(a_pod().asks(2).with_annotation(names.MODEL, f"{A100},{A6000}").obj)

    assert booked_reserve(asking(2), mixed, planned) == HALF - 1
    assert booked_reserve(asking(1), mixed, planned) >= HALF
    assert booked_reserve(either, mixed, planned) >= HALF


def test_the_model_with_the_most_devices_left_decides_for_a_pod_of_any_model() -> None:
    mixed = view((a100(0, "n"), a6000(1, "n"), a6000(2, "n"), a6000(3, "n")))

    assert booked_reserve(asking(2), mixed, {A6000: 1}) >= HALF
    assert booked_reserve(asking(3), mixed, {A6000: 1}) == HALF - 1


def test_unaccounted_devices_are_not_counted_as_left_for_bookings() -> None:
    assert booked_reserve(asking(1), plain(4, 0, 1), {A100: 2}) >= HALF
    assert booked_reserve(asking(1), plain(4, 0, 2), {A100: 2}) < HALF


@given(NEEDS, PLANNED, st.data())
def test_kube_scheduler_accepts_every_score(need: int, planned: int, data: st.DataObject) -> None:
    score = booked_reserve(asking(need), plain(*data.draw(fills(need))), {A100: planned})

    assert 0 <= score <= MAX_SCORE
