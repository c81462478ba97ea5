"""The rooms of a plan, and what an attempt changes without changing the plan."""

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
def test_rooms_are_ordered_by_the_devices_free_for_the_whole_span(
    plan: ModelPlan, start: int, end: int, rooms: list[tuple[int, str]]
) -> None:
    assert plan.rooms(start, end) == rooms


def test_the_rooms_of_a_span_are_computed_once(plan: ModelPlan) -> None:
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


def test_a_changed_plan_has_other_rooms_and_the_original_keeps_its_own(plan: ModelPlan) -> None:
    moved = plan.changed([(LATE, "n1")], [(LATE, "n0")])
    assert moved.rooms(10, 12) == [(1, "n0"), (1, "n2"), (3, "n1")]
    assert plan.rooms(10, 12) == [(0, "n1"), (1, "n2"), (4, "n0")]


def test_an_item_on_a_node_that_is_gone_is_unplaced_until_it_is_moved(
    plan: ModelPlan,
) -> None:
    lost = plan.changed([(LATE, "n1")], [(LATE, "gone")])
    assert (plan.unplaced, lost.unplaced) == ((), (LATE,))
    assert lost.changed([(LATE, "gone")], [(LATE, "n1")]).unplaced == ()


def test_a_node_that_has_lost_devices_is_overfull_for_as_long_as_too_much_is_planned() -> None:
    smaller = ModelPlan({"n0": 2}, [(LARGE, "n0"), (SMALL, "n0")])
    assert list(smaller.overfull(0)) == [("n0", 4, 6)]
    assert list(smaller.overfull(5)) == [("n0", 5, 6)]
    assert list(smaller.overfull(6)) == []
    assert list(smaller.changed([(SMALL, "n0")], []).overfull(0)) == []


# --- an attempt ------------------------------------------------------------------------------------------


def test_items_put_and_taken_change_the_attempt_and_not_the_plan(plan: ModelPlan) -> None:
    attempt = PlanAttempt(plan, fixed_until=0)
    attempt.put(an_item("new", 0, 4), "n2")
    attempt.take(LATE, "n1")
    assert attempt.plan().rooms(8, 9) == [(1, "n2"), (2, "n0"), (3, "n1")]
    assert dict(attempt.places) == {an_item("new", 0, 4): "n2"}
    assert plan.rooms(8, 9) == [(0, "n1"), (1, "n2"), (2, "n0")]


def test_fixed_items_are_never_moved(plan: ModelPlan) -> None:
    wanted = an_item("wanted", 8, 12, 4)
    free = PlanAttempt(plan.changed([(LARGE, "n0"), (LATE, "n1")], [(LATE, "n0")]), fixed_until=0)
    assert free.place_all([wanted])
    assert dict(free.places) == {wanted: "n0", LATE: "n1"}
    fixed = PlanAttempt(plan.changed([(LARGE, "n0"), (LATE, "n1")], [(LATE, "n0")]), fixed_until=0)
    fixed.fix([LATE])
    assert not fixed.place_all([wanted])
    assert dict(fixed.places) == {}


@pytest.mark.parametrize(("fixed_until", "placed"), [(7, True), (8, False)])
def test_items_that_begin_by_the_fixed_instant_are_never_moved(
    plan: ModelPlan, fixed_until: int, *, placed: bool
) -> None:
    changed = plan.changed([(LARGE, "n0"), (LATE, "n1")], [(LATE, "n0")])
    assert PlanAttempt(changed, fixed_until=fixed_until).place_all([an_item("wanted", 8, 12, 4)]) == placed


def test_an_attempt_without_steps_uses_free_devices_and_does_not_search(plan: ModelPlan) -> None:
    attempt = PlanAttempt(plan, fixed_until=0, steps=0)
    assert attempt.place_all([an_item("fits", 12, 14, 4)])
    assert not attempt.place_all([an_item("wanted", 8, 12, 4)])
    assert attempt.left == 0


def test_no_item_is_placed_on_a_node_that_is_not_in_the_plan(plan: ModelPlan) -> None:
    item = an_item("wanted", 12, 14)
    attempt = PlanAttempt(plan, fixed_until=0)
    assert attempt.node_plan("gone") is None
    assert not attempt.place_all([item], {item: "gone"})
    assert attempt.place_all([item], {item: "n2"})
