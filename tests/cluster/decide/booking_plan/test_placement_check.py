"""Whether a booked pod may be placed on a node with every booking keeping its place."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import pytest

from cluster.decide.booking_plan import PlacementCheck, PlannedBooking, placement_check
from cluster.decide.booking_plan.placement_check import planned_booking
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


# --- when a check is needed --------------------------------------------------------------------------
def test_no_check_is_needed_where_only_single_devices_are_booked() -> None:
    assert _found({"n0": 2}, _single("b-1", "n0")) is None


def test_a_check_of_single_devices_is_made_when_the_caller_asks_for_all() -> None:
    assert _found({"n0": 2}, _single("b-1", "n0"), is_all=True) is not None


def test_no_check_is_needed_where_nothing_is_booked_even_when_the_caller_asks_for_all() -> None:
    assert _found({"n0": 2}, is_all=True) is None


def test_a_check_is_needed_when_a_booking_needs_one_node() -> None:
    assert _found({"n0": 2}, _single("b-1", "n0"), _whole("b-2", "n0")) is not None


def test_a_booking_of_another_model_needs_no_check() -> None:
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
def test_maintenance_of_the_model_s_devices_that_is_not_over_needs_a_check(
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


# --- whether the plan holds --------------------------------------------------------------------------
def test_the_plan_holds_after_a_node_lost_a_device_if_a_later_booking_can_move() -> None:
    later = _single("b-2", "n0", start=EPOCH + HOUR)
    assert _check({"n0": 1, "n1": 1}, _single("b-1", "n0"), later).holds()
    assert not _check({"n0": 1, "n1": 0}, _single("b-1", "n0"), later).holds()


def test_a_booking_that_has_begun_moves_only_for_the_plan_controller_and_only_without_pods() -> None:
    booked = _single("b-1", "n0")
    assert not _check({"n0": 0, "n1": 1}, booked).holds()
    assert _check({"n0": 0, "n1": 1}, booked).holds(with_begun=True)
    running = _check({"n0": 0, "n1": 1}, booked, pins={"b-1": {"n0": 1}})
    assert not running.holds(with_begun=True)


# --- a pod that is never evicted ---------------------------------------------------------------------
@pytest.mark.parametrize(("devices", "is_allowed"), [(1, True), (2, True), (3, False)])
def test_a_pod_may_stay_for_good_on_devices_that_no_booking_needs(devices: int, *, is_allowed: bool) -> None:
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


def test_a_pod_may_not_stay_for_good_on_devices_of_a_booking_s_pods() -> None:
    running = _check({"n0": 1, "n1": 1}, _single("b-1", "n0"), pins={"b-1": {"n0": 1}})
    assert not running.allows_permanent("n0", 1)
    assert running.allows_permanent("n1", 1)


def test_a_pod_may_stay_for_good_where_another_booking_gives_way_to_repair_the_plan() -> None:
    there = _whole("b-1", "n0", start=EPOCH + HOUR)
    assert _check({"n0": 1, "n1": 2, "n2": 1}, there).allows_permanent("n0", 1)
    assert not _check({"n0": 1, "n1": 2, "n2": 1}, there).allows_permanent("n1", 1)


def test_a_booking_that_can_have_no_place_anyway_keeps_no_pod_from_staying_for_good() -> None:
    check = _check({"n0": 1, "n1": 1}, _whole("b-1"), _single("b-2", "n1"))
    assert check.allows_permanent("n0", 1)


def test_a_question_repeated_after_others_gets_the_same_answer() -> None:
    check = _check({"n0": 1, "n1": 2}, _single("b-1", "n0"), _whole("b-2", "n1"))
    queries = [("b-1", "n0", 1), ("b-1", "n1", 1), ("b-2", "n1", 2), ("b-2", "n0", 1)]
    answers = [check.allows(*each) for each in queries]
    assert answers == [True, False, True, False]
    assert [check.allows(*each) for each in reversed(queries)] == answers[::-1]


# --- a pod that needs several of a booking's devices -------------------------------------------------
def _apart(*places: tuple[str, int], start: datetime = EPOCH) -> Booking:
    written = [{"node": node, "count": count} for node, count in places]
    return a_booking("b-1", count=sum(count for _, count in places), start=start, places=written)


@pytest.mark.parametrize(
    ("need", "devices", "is_allowed"),
    [(1, 1, True), (2, 2, True), (2, 1, False), (3, 3, True), (3, 2, False), (4, 9, False)],
)
def test_a_booking_planned_elsewhere_moves_to_its_pod_s_node_where_that_has_room(
    need: int, devices: int, *, is_allowed: bool
) -> None:
    booking = _apart(("n0", 1), ("n1", 1), ("n2", 1))
    assert _check({"n0": devices, "n1": 1, "n2": 1}, booking).allows("b-1", "n0", need) == is_allowed


def test_a_pod_may_go_to_its_booking_s_planned_node_even_if_that_has_lost_devices() -> None:
    check = _check({"n0": 1}, _apart(("n0", 2)))
    assert check.allows("b-1", "n0", 2)
    assert check.has("b-1", "n0") == 2


def test_only_devices_that_no_pod_uses_yet_move_to_another_pod() -> None:
    check = _check({"n0": 2, "n1": 2}, _apart(("n0", 1), ("n1", 1)), pins={"b-1": {"n1": 1}})
    assert (check.has("b-1", "n0"), check.has("b-1", "n1")) == (1, 0)
    assert check.allows("b-1", "n1", 1)
    assert not check.allows("b-1", "n0", 2)


def test_a_booking_without_a_place_may_go_where_there_is_room_and_nowhere_else() -> None:
    check = _check({"n0": 1, "n1": 1}, _single("b-1"), _single("b-2", "n0"))
    assert check.has("b-1", "n1") == 0
    assert check.allows("b-1", "n1", 1)
    assert not check.allows("b-1", "n0", 1)


def test_nodes_that_are_alike_are_all_allowed_or_none_is() -> None:
    devices = {"n0": 1, "n1": 2, "n2": 2, "n3": 3}
    begun = [_whole("b-2", "n1"), _whole("b-3", "n2"), _whole("b-4", "n3")]
    check = _check(devices, _single("b-1", "n0"), *begun)
    assert [check.allows("b-1", node, 1) for node in devices] == [True, False, False, True]


def test_a_node_whose_later_booking_is_pinned_by_a_pod_is_not_allowed_and_equal_ones_are() -> None:
    later = [_single(name, node, start=EPOCH + HOUR) for name, node in (("b-2", "n1"), ("b-3", "n2"))]
    devices = {"n0": 1, "n1": 1, "n2": 1, "n3": 1}
    check = _check(devices, _single("b-1", "n0"), *later, pins={"b-2": {"n1": 1}})
    assert [check.allows("b-1", node, 1) for node in devices] == [True, False, True, True]


# --- pods where their booking has no place -----------------------------------------------------------
def test_pods_of_a_booking_without_a_place_hold_their_devices_against_others() -> None:
    lost, other = _single("b-1"), _single("b-2", "n0")
    check = _check({"n0": 1, "n1": 1}, lost, other, pins={"b-1": {"n1": 1}})
    assert not check.allows("b-2", "n1", 1)
    assert [(item.size, node) for item, node in check.pinned["b-1"]] == [(1, "n1")]


def test_pods_of_a_booking_without_a_place_hold_nothing_on_an_unknown_node() -> None:
    check = _check({"n0": 1}, _single("b-1"), pins={"b-1": {"gone": 1}})
    assert check.pinned == {"b-1": []}
    assert check.allows("b-1", "n0", 1)


def test_pods_of_a_booking_that_is_over_or_unknown_hold_nothing() -> None:
    over = _single("b-0", "n0", start=EPOCH - 4 * HOUR)
    check = _check({"n0": 1}, over, _single("b-1", "n0"), pins={"b-0": {"n0": 1}, "unknown": {"n0": 1}})
    assert (check.pinned, list(check.placed)) == ({}, ["b-1"])


def test_a_whole_booking_whose_pods_run_elsewhere_does_not_move_but_they_may_have_more() -> None:
    there = _whole("b-1", "n0")
    check = _check({"n0": 2, "n1": 1, "n2": 2}, there, pins={"b-1": {"n1": 1}})
    assert check.allows("b-1", "n0", 2)
    assert not check.allows("b-1", "n1", 1)
    assert check.allows("b-1", "n2", 2)


# --- whether the plan holds, over time ---------------------------------------------------------------
def test_a_plan_holds_only_if_a_node_is_relieved_at_every_instant_at_which_it_is_overfull() -> None:
    later = [_single(f"b-{hour}", "n0", start=EPOCH + hour * HOUR, hours=1) for hour in (1, 3)]
    assert _check({"n0": 0, "n1": 1}, *later).holds()
    busy = _single("b-9", "n1", start=EPOCH + 3 * HOUR, hours=1)
    assert not _check({"n0": 0, "n1": 1}, *later, busy).holds()


def test_the_booking_that_has_begun_stays_where_two_are_too_many_for_a_node() -> None:
    begun, later = _single("b-1", "n0"), _single("b-2", "n0", start=EPOCH + HOUR)
    check = _check({"n0": 1, "n1": 1}, begun, later)
    assert check.holds()
    assert not _check({"n0": 1, "n1": 1}, begun, _single("b-2", "n0")).holds()
    assert _check({"n0": 1, "n1": 1}, begun, _single("b-2", "n0")).holds(with_begun=True)


def test_a_booking_that_has_begun_makes_room_for_one_without_a_place_only_when_it_may_be_moved() -> None:
    begun = [_single("b-1", "n1"), _single("b-2", "n2")]
    check = _check({"n0": 1, "n1": 2, "n2": 2}, *begun, _whole("b-3", "n0", start=EPOCH + HOUR))
    assert not check.holds()
    assert check.holds(with_begun=True)


def test_asking_whether_the_plan_holds_does_not_change_it() -> None:
    check = _check({"n0": 0, "n1": 1}, _single("b-1", "n0"))
    before = {name: list(plan.items) for name, plan in check.plan.node_plans.items()}
    assert check.holds(with_begun=True)
    assert not check.holds()
    assert {name: list(plan.items) for name, plan in check.plan.node_plans.items()} == before


# --- the input of a check ----------------------------------------------------------------------------
def test_maintenance_at_the_same_time_adds_up_to_no_more_than_the_node_has() -> None:
    blocks = {"n0": (_block(1, 3, count=1), _block(2, 4, count=2, model=A100), _block(0, 9, model=A6000))}
    made = _found({"n0": 2}, _single("b-1", "n0", hours=1), blocks=blocks)
    assert made is not None
    starts = [int((EPOCH + hour * HOUR).timestamp()) for hour in range(5)]
    assert [made.plan.node_plans["n0"].blocked(at, at + 1).most(at, at + 1) for at in starts] == [
        0,
        1,
        2,
        2,
        0,
    ]


def test_a_booking_is_planned_in_whole_seconds_at_its_places() -> None:
    start = EPOCH + timedelta(milliseconds=900)
    booking = a_booking(
        "b-7",
        count=3,
        start=start,
        end=start + HOUR,
        topology="single-node",
        places=[{"node": "n1", "count": 1}, {"node": "n0", "count": 2}],
    )
    at = int(EPOCH.timestamp())
    assert planned_booking(booking) == PlannedBooking(
        "b-7", at, at + 3600, 3, is_whole=True, plan=(("n1", 1), ("n0", 2))
    )
    assert planned_booking(a_booking(topology="single-node")).is_whole is False


# --- shares ------------------------------------------------------------------------------------------
def _share(name: str, node: str, *lanes: int, start: datetime = EPOCH, hours: int = 4) -> Booking:
    places = [{"node": node, "count": len(lanes), "lanes": lanes}]
    return a_booking(
        name, count=len(lanes), start=start, end=start + hours * HOUR, places=places, memory=1, topology="any"
    )


def test_a_check_is_needed_where_shares_are_booked_and_those_of_one_lane_take_one_device() -> None:
    check = _found({"n0": 1, "n1": 1}, _share("b-1", "n0", 1), _share("b-2", "n0", 1), _single("b-3", "n1"))
    assert check is not None
    assert check.holds()
    assert [check.has(f"b-{number}", "n0") for number in (1, 2, 3)] == [1, 1, 0]
    assert check.allows("b-1", "n0", 1)


def test_a_pod_of_a_share_keeps_its_whole_lane_on_its_node() -> None:
    bookings = _share("b-1", "n0", 1), _share("b-2", "n0", 1), _single("b-3", "n1")
    check = _check({"n0": 1, "n1": 1}, *bookings, pins={"b-1": {"n0": 1}})
    assert not check.allows("b-2", "n1", 1)
    assert check.allows("b-2", "n0", 1)
    assert not check.allows("b-3", "n0", 1)


def test_a_share_may_be_on_another_node_where_a_device_is_left_for_it() -> None:
    bookings = _share("b-1", "n0", 1), _share("b-2", "n0", 1), _single("b-3", "n1")
    check = _check({"n0": 1, "n1": 2}, *bookings, pins={"b-1": {"n0": 1}})
    assert check.allows("b-2", "n1", 1)
    assert check.has("b-1", "n0") == 0


def test_shares_of_several_lanes_are_had_where_each_has_its_place() -> None:
    places = [{"node": "n0", "count": 1, "lanes": [1]}, {"node": "n1", "count": 1, "lanes": [2]}]
    booking = a_booking(count=2, memory=1, topology="any", places=places, end=EPOCH + HOUR)
    check = _check({"n0": 1, "n1": 1}, booking)
    assert [check.allows("b-1", node, 1) for node in ("n0", "n1")] == [True, True]
    assert not check.allows("b-1", "n0", 2)
