"""Whether a booked pod may be placed on a node with every booking keeping its place."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import pytest

from cluster.decide.booking_plan import PlacementCheck, placement_check
from cluster.objects.bookings import Booking
from cluster.objects.maintenance import MaintenanceBlock
from tests.fakes.objects import A100, A6000, EPOCH, a_booking

HOUR = timedelta(hours=1)


def _single(name: str, node: str = "", *, start: datetime = EPOCH, hours: int = 4) -> Booking:
    places = [{"node": node, "count": 1}] if node else []
    return a_booking(name, start=start, end=start + hours * HOUR, places=places)


def _whole(name: str, node: str = "", *, count: int = 2, start: datetime = EPOCH, hours: int = 4) -> Booking:
    places = [{"node": node, "count": count}] if node else []
    end = start + hours * HOUR
    return a_booking(name, count=count, topology="single-node", start=start, end=end, places=places)


def _block(start: int, end: int, *, model: str | None = None, count: int | None = None) -> MaintenanceBlock:
    return MaintenanceBlock(EPOCH + start * HOUR, EPOCH + end * HOUR, model, count)


def _found(
    devices: Mapping[str, int],
    *bookings: Booking,
    pins: Mapping[str, Mapping[str, int]] | None = None,
    blocks: Mapping[str, tuple[MaintenanceBlock, ...]] | None = None,
    is_all: bool = False,
) -> PlacementCheck | None:
    return placement_check(
        A100, bookings, devices=devices, blocks=blocks or {}, pins=pins or {}, now=EPOCH, is_all=is_all
    )


def _check(
    devices: Mapping[str, int], *bookings: Booking, pins: Mapping[str, Mapping[str, int]] | None = None
) -> PlacementCheck:
    made = _found(devices, *bookings, pins=pins, is_all=True)
    assert made is not None
    return made


# --- when one is needed ------------------------------------------------------------------------------
def test_none_is_needed_where_only_single_devices_are_booked() -> None:
    assert _found({"n0": 2}, _single("b-1", "n0")) is None


def test_one_is_needed_for_single_devices_when_the_caller_minds_places() -> None:
    assert _found({"n0": 2}, _single("b-1", "n0"), is_all=True) is not None


def test_none_is_needed_where_nothing_is_booked_even_when_the_caller_minds_places() -> None:
    assert _found({"n0": 2}, is_all=True) is None


def test_one_is_needed_when_a_booking_needs_one_node() -> None:
    assert _found({"n0": 2}, _single("b-1", "n0"), _whole("b-2", "n0")) is not None


def test_a_booking_of_another_model_is_none_of_its_business() -> None:
    assert _found({"n0": 2}, a_booking(model=A6000, count=2, topology="single-node")) is None


def test_a_booking_that_ends_at_this_instant_is_over() -> None:
    assert _found({"n0": 2}, _whole("b-1", "n0", start=EPOCH - 4 * HOUR)) is None


@pytest.mark.parametrize(
    ("block", "node", "is_needed"),
    [
        (_block(1, 2), "n0", True),
        (_block(1, 2, model=A100), "n0", True),
        (_block(1, 2, model=A6000), "n0", False),
        (_block(-2, 0), "n0", False),
        (_block(1, 2, count=0), "n0", False),
        (_block(1, 2), "unknown", False),
        (_block(1, 2), "empty", False),
    ],
    ids=["all", "its-model", "another-model", "over", "of-nothing", "unknown-node", "node-without-devices"],
)
def test_maintenance_of_the_model_s_devices_that_is_not_over_needs_one(
    block: MaintenanceBlock, node: str, *, is_needed: bool
) -> None:
    made = _found({"n0": 2, "empty": 0}, _single("b-1", "n0"), blocks={node: (block,)})
    assert (made is not None) == is_needed


@pytest.mark.parametrize(("count", "taken"), [(None, 2), (1, 1), (9, 2)])
def test_maintenance_takes_the_devices_it_names_and_never_more_than_the_node_has(
    count: int | None, taken: int
) -> None:
    booked = _single("b-1", "n1")
    made = _found({"n0": 2, "n1": 1}, booked, blocks={"n0": (_block(1, 2, count=count),)})
    assert made is not None
    start = int((EPOCH + HOUR).timestamp())
    assert made.plan.node_plans["n0"].room(start, start + 1) == 2 - taken


# --- a pod of a single device ------------------------------------------------------------------------
def test_a_pod_may_go_where_its_booking_is_planned_and_to_a_free_node() -> None:
    check = _check({"n0": 1, "n1": 1}, _single("b-1", "n0"))
    assert check.allows("b-1", "n0", 1)
    assert check.allows("b-1", "n1", 1)


def test_a_pod_may_not_take_the_only_node_of_a_booking_that_has_begun() -> None:
    check = _check({"n0": 1, "n1": 2}, _single("b-1", "n0"), _whole("b-2", "n1"))
    assert not check.allows("b-1", "n1", 1)


def test_a_pod_may_take_a_place_from_which_a_booking_that_has_not_begun_can_move() -> None:
    later = _whole("b-2", "n1", start=EPOCH + HOUR)
    assert _check({"n0": 1, "n1": 2, "n2": 2}, _single("b-1", "n0"), later).allows("b-1", "n1", 1)
    assert not _check({"n0": 1, "n1": 2}, _single("b-1", "n0"), later).allows("b-1", "n1", 1)


def test_a_place_is_free_from_the_instant_at_which_the_other_booking_ends() -> None:
    first = _whole("b-1", "n0", hours=1)
    touching = _whole("b-2", "n1", start=EPOCH + HOUR)
    assert _check({"n0": 2, "n1": 2}, first, touching).allows("b-2", "n0", 2)
    overlapping = _whole("b-2", "n1", start=EPOCH + HOUR - timedelta(seconds=1))
    assert not _check({"n0": 2, "n1": 2}, first, overlapping).allows("b-2", "n0", 2)


def test_a_pod_may_not_have_more_devices_than_its_booking_has_left() -> None:
    booking = a_booking("b-1", count=2, places=[{"node": "n0", "count": 1}, {"node": "n1", "count": 1}])
    assert _check({"n0": 3, "n1": 1}, booking).allows("b-1", "n0", 2)
    assert not _check({"n0": 3, "n1": 1}, booking).allows("b-1", "n0", 3)


def test_a_booking_whose_devices_are_all_in_use_allows_no_further_pod() -> None:
    check = _check({"n0": 2}, _single("b-1", "n0"), pins={"b-1": {"n0": 1}})
    assert check.has("b-1", "n0") == 0
    assert not check.allows("b-1", "n0", 1)


def test_an_unknown_booking_may_go_to_any_known_node_and_to_no_other() -> None:
    check = _check({"n0": 1}, _single("b-1", "n0"))
    assert check.allows("unknown", "n0", 1)
    assert not check.allows("unknown", "gone", 1)
    assert not check.allows("b-1", "gone", 1)


# --- a booking of one node ---------------------------------------------------------------------------
def test_a_whole_booking_has_its_devices_where_it_is_planned_however_many_its_pods_use() -> None:
    check = _check({"n0": 2, "n1": 2}, _whole("b-1", "n0"), pins={"b-1": {"n0": 1}})
    assert (check.has("b-1", "n0"), check.has("b-1", "n1"), check.has("unknown", "n0")) == (2, 0, 0)
    assert check.allows("b-1", "n0", 1)


def test_a_whole_booking_without_pods_may_move_to_a_node_that_has_room_for_all_of_it() -> None:
    assert _check({"n0": 2, "n1": 2}, _whole("b-1", "n0")).allows("b-1", "n1", 1)


def test_a_pod_off_the_node_of_its_whole_booking_needs_room_of_its_own() -> None:
    there = _whole("b-1", "n0")
    assert _check({"n0": 2, "n1": 1}, there).allows("b-1", "n1", 1)
    assert not _check({"n0": 2, "n1": 1}, there).allows("b-1", "n1", 2)


# --- whether all of it holds -------------------------------------------------------------------------
def test_a_node_that_has_lost_a_device_holds_once_what_has_not_begun_moves() -> None:
    later = _single("b-2", "n0", start=EPOCH + HOUR)
    assert _check({"n0": 1, "n1": 1}, _single("b-1", "n0"), later).holds()
    assert not _check({"n0": 1, "n1": 0}, _single("b-1", "n0"), later).holds()


def test_what_has_begun_moves_only_for_the_booking_server_s_keeper_and_only_without_pods() -> None:
    booked = _single("b-1", "n0")
    assert not _check({"n0": 0, "n1": 1}, booked).holds()
    assert _check({"n0": 0, "n1": 1}, booked).holds(with_begun=True)
    running = _check({"n0": 0, "n1": 1}, booked, pins={"b-1": {"n0": 1}})
    assert not running.holds(with_begun=True)


# --- a pod that stays --------------------------------------------------------------------------------
@pytest.mark.parametrize(("devices", "is_allowed"), [(1, True), (2, True), (3, False)])
def test_a_pod_may_stay_for_good_on_what_no_booking_needs(devices: int, *, is_allowed: bool) -> None:
    assert _check({"n0": 3}, _single("b-1", "n0")).allows_permanent("n0", devices) == is_allowed


def test_a_pod_may_stay_for_good_where_a_later_booking_can_move() -> None:
    later = _single("b-1", "n0", start=EPOCH + HOUR)
    assert _check({"n0": 1, "n1": 1}, later).allows_permanent("n0", 1)
    assert not _check({"n0": 1}, later).allows_permanent("n0", 1)


def test_a_pod_may_stay_for_good_on_a_node_that_has_nothing_of_the_model() -> None:
    assert _check({"n0": 1}, _single("b-1", "n0")).allows_permanent("unknown", 1)


def test_a_booking_without_a_place_gets_one_before_devices_are_taken_for_good() -> None:
    check = _check({"n0": 1, "n1": 1}, _single("b-1"), _single("b-2"))
    assert not check.allows_permanent("n0", 1)
    assert not check.allows_permanent("n1", 1)
