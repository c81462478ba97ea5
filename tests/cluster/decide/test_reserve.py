"""What running bookings will need: their places, less what their pods have already."""

from collections.abc import Sequence
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from cluster.decide.ledger import Ledger, NodeView
from cluster.decide.ledger.holdings import PodHoldings
from cluster.decide.reserve import Reserve, reserve
from cluster.objects.bookings import Booking
from tests.fakes.objects import A100, EPOCH, a100, a6000, a_booking, a_node, a_pod

NODES = ("n0", "n1", "n2")


def booked(count: int, *places: tuple[str, int], **more: object) -> Booking:
    return a_booking(count=count, places=[{"node": node, "count": number} for node, number in places], **more)


def held(*pods: tuple[str, str, Sequence[int]]) -> dict[str, tuple[PodHoldings, NodeView]]:
    """Pods of alice's: name, node, and the indexes of their devices; the fourth is an A6000."""
    ledger = Ledger()
    for node in NODES:
        ledger.apply_node(a_node(node, *(a100(index, node) for index in range(3)), a6000(3, node)))
    for name, node, devices in pods:
        taken = {"main": tuple(f"GPU-{node}-{index}" for index in devices)}
        ledger.apply_pod(a_pod(name).asks(len(devices)).on(node, taken).obj)
    found = {}
    for name, node, _ in pods:
        if holding := ledger.holding(f"uid-{name}"):
            found[f"uid-{name}"] = (holding, ledger.view(node))
    return found


def needed(booking: Booking, *pods: tuple[str, str, Sequence[int]]) -> Reserve:
    return reserve([booking], {f"uid-{name}": booking for name, *_ in pods}, held(*pods), EPOCH)


def test_a_booking_without_pods_needs_all_its_places() -> None:
    assert needed(booked(3, ("n0", 2), ("n1", 1))) == {"n0": {A100: 2}, "n1": {A100: 1}}


def test_devices_that_its_pods_already_have_there_are_no_longer_needed() -> None:
    assert needed(booked(3, ("n0", 2), ("n1", 1)), ("p", "n0", [0])) == {"n0": {A100: 1}, "n1": {A100: 1}}


def test_pods_elsewhere_use_the_booking_up_as_well() -> None:
    assert needed(booked(2, ("n0", 2)), ("p", "n2", [0, 1])) == {}


def test_devices_of_another_model_use_nothing_up() -> None:
    assert needed(booked(1, ("n0", 1)), ("p", "n0", [3])) == {"n0": {A100: 1}}


def test_a_booking_whose_plan_names_one_node_has_its_place_there() -> None:
    assert needed(a_booking(count=2, node="n1")) == {"n1": {A100: 2}}


def test_bookings_that_do_not_run_need_nothing() -> None:
    later = booked(1, ("n0", 1), start=EPOCH + timedelta(hours=1))
    over = booked(1, ("n0", 1), start=EPOCH - timedelta(hours=2), end=EPOCH)

    assert reserve([later, over], {}, {}, EPOCH) == {}


@given(
    st.lists(
        st.tuples(st.sampled_from(NODES), st.integers(1, 3)), max_size=3, unique_by=lambda place: place[0]
    ),
    st.lists(st.tuples(st.sampled_from(NODES), st.integers(1, 3)), max_size=3, unique_by=lambda pod: pod[0]),
    st.integers(0, 3),
)
def test_no_more_is_needed_than_the_booking_has_left_or_than_is_planned(
    places: list[tuple[str, int]], pods: list[tuple[str, int]], more: int
) -> None:
    count = sum(number for _, number in places) + more
    found = needed(booked(count, *places), *((f"p-{node}", node, range(size)) for node, size in pods))
    used = dict(pods)

    assert sum(models[A100] for models in found.values()) <= max(0, count - sum(used.values()))
    for node, models in found.items():
        assert 0 < models[A100] <= dict(places)[node] - used.get(node, 0)


def test_shares_of_one_lane_need_one_device_until_a_pod_of_any_has_it() -> None:
    lane = [{"node": "n0", "count": 1, "lanes": [5]}]
    shares = [a_booking(name, memory=1, places=lane) for name in ("b-1", "b-2")]
    other = a_booking("b-3", memory=1, places=[{"node": "n0", "count": 1, "lanes": [6]}])
    assert reserve([*shares, other], {}, {}, EPOCH) == {"n0": {A100: 2}}
    cover = {"uid-p": shares[0]}
    assert reserve([*shares, other], cover, held(("p", "n0", [0])), EPOCH) == {"n0": {A100: 1}}


def test_each_share_without_a_number_needs_a_device_of_its_own() -> None:
    alone = [{"node": "n0", "count": 2, "lanes": [0, 0]}]
    shares = [a_booking(name, memory=1, count=2, places=alone) for name in ("b-1", "b-2")]
    assert reserve(shares, {}, {}, EPOCH) == {"n0": {A100: 4}}
