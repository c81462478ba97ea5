"""What a plan says of its nodes, and what an attempt may do to it that is thrown away."""

import pytest

from cluster.decide.booking_plan import Item, ModelPlan, PlanAttempt
from cluster.decide.booking_plan.timeline import INDEFINITELY


def an_item(key: str, start: int = 5, end: int = 9, size: int = 1) -> Item:
    return Item(start=start, key=key, serial=0, end=end, size=size)


LARGE, SMALL, LATE = an_item("large", 0, 10, 2), an_item("small", 4, 6), an_item("late", 8, 12, 3)


@pytest.fixture
def plan() -> ModelPlan:
    """Four GPUs on n0, three on n1, one on n2; on n1 one is maintained from 6 to 8."""
    devices = {"n2": 1, "n0": 4, "n1": 3}
    placed = [(LARGE, "n0"), (SMALL, "n0"), (LATE, "n1")]
    return ModelPlan(devices, placed, [("n1", 6, 8, 1)])


# --- rooms -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "end", "rooms"),
    [
        (0, 4, [(1, "n2"), (2, "n0"), (3, "n1")]),
        (0, 5, [(1, "n0"), (1, "n2"), (3, "n1")]),
        (5, 7, [(1, "n0"), (1, "n2"), (2, "n1")]),
        (6, 8, [(1, "n2"), (2, "n0"), (2, "n1")]),
        (6, 9, [(0, "n1"), (1, "n2"), (2, "n0")]),
        (12, INDEFINITELY, [(1, "n2"), (3, "n1"), (4, "n0")]),
    ],
)
def test_nodes_are_named_by_what_is_free_all_the_time_the_smallest_first(
    plan: ModelPlan, start: int, end: int, rooms: list[tuple[int, str]]
) -> None:
    assert plan.rooms(start, end) == rooms


def test_a_room_is_worked_out_once_for_a_span(plan: ModelPlan) -> None:
    assert plan.rooms(0, 4) is plan.rooms(0, 4)
    assert plan.rooms(0, 4) is not plan.rooms(0, 5)


@pytest.mark.parametrize(
    ("not_before", "length", "size", "at"),
    [
        (0, 4, 1, 0),
        (0, 100, 1, 0),
        (0, 6, 3, 0),
        (0, 7, 3, 10),
        (0, 4, 4, 10),
        (1, 5, 3, 1),
        (2, 5, 3, 10),
        (13, 5, 4, 13),
        (0, 1, 5, None),
    ],
)
def test_the_first_gap_is_the_earliest_of_all_nodes_that_are_large_enough(
    plan: ModelPlan, not_before: int, length: int, size: int, at: int | None
) -> None:
    assert plan.first_gap(not_before, length, size) == at


# --- a changed plan --------------------------------------------------------------------------------------


def test_a_changed_plan_has_other_rooms_and_the_first_has_its_own(plan: ModelPlan) -> None:
    moved = plan.changed([(LATE, "n1")], [(LATE, "n0")])
    assert moved.rooms(10, 12) == [(1, "n0"), (1, "n2"), (3, "n1")]
    assert plan.rooms(10, 12) == [(0, "n1"), (1, "n2"), (4, "n0")]


def test_what_is_put_on_a_node_that_is_gone_has_no_place_until_it_is_taken_from_there(
    plan: ModelPlan,
) -> None:
    lost = plan.changed([(LATE, "n1")], [(LATE, "gone")])
    assert (plan.unplaced, lost.unplaced) == ((), (LATE,))
    assert lost.changed([(LATE, "gone")], [(LATE, "n1")]).unplaced == ()


def test_where_a_node_has_lost_devices_it_is_overfull_for_as_long_as_it_is() -> None:
    smaller = ModelPlan({"n0": 2}, [(LARGE, "n0"), (SMALL, "n0")])
    assert list(smaller.overfull(0)) == [("n0", 4, 6)]
    assert list(smaller.overfull(5)) == [("n0", 5, 6)]
    assert list(smaller.overfull(6)) == []
    assert list(smaller.changed([(SMALL, "n0")], []).overfull(0)) == []


# --- an attempt ------------------------------------------------------------------------------------------


def test_what_is_put_and_taken_is_known_to_the_attempt_alone(plan: ModelPlan) -> None:
    attempt = PlanAttempt(plan, fixed_until=0)
    attempt.put(an_item("new", 0, 4), "n2")
    attempt.take(LATE, "n1")
    assert attempt.plan().rooms(8, 9) == [(1, "n2"), (2, "n0"), (3, "n1")]
    assert dict(attempt.places) == {an_item("new", 0, 4): "n2"}
    assert plan.rooms(8, 9) == [(0, "n1"), (1, "n2"), (2, "n0")]


def test_what_is_fixed_is_moved_for_nobody(plan: ModelPlan) -> None:
    wanted = an_item("wanted", 8, 12, 4)
    free = PlanAttempt(plan.changed([(LARGE, "n0"), (LATE, "n1")], [(LATE, "n0")]), fixed_until=0)
    assert free.place_all([wanted])
    assert dict(free.places) == {wanted: "n0", LATE: "n1"}
    fixed = PlanAttempt(plan.changed([(LARGE, "n0"), (LATE, "n1")], [(LATE, "n0")]), fixed_until=0)
    fixed.fix([LATE])
    assert not fixed.place_all([wanted])
    assert dict(fixed.places) == {}


@pytest.mark.parametrize(("fixed_until", "placed"), [(7, True), (8, False)])
def test_what_begins_by_then_is_moved_for_nobody(plan: ModelPlan, fixed_until: int, *, placed: bool) -> None:
    changed = plan.changed([(LARGE, "n0"), (LATE, "n1")], [(LATE, "n0")])
    assert PlanAttempt(changed, fixed_until=fixed_until).place_all([an_item("wanted", 8, 12, 4)]) == placed


def test_an_attempt_without_steps_takes_what_is_free_and_searches_no_further(plan: ModelPlan) -> None:
    attempt = PlanAttempt(plan, fixed_until=0, steps=0)
    assert attempt.place_all([an_item("fits", 12, 14, 4)])
    assert not attempt.place_all([an_item("wanted", 8, 12, 4)])
    assert attempt.left == 0


def test_a_node_that_is_not_in_the_plan_is_nobodys_place(plan: ModelPlan) -> None:
    item = an_item("wanted", 12, 14)
    attempt = PlanAttempt(plan, fixed_until=0)
    assert attempt.node_plan("gone") is None
    assert not attempt.place_all([item], {item: "gone"})
    assert attempt.place_all([item], {item: "n2"})
