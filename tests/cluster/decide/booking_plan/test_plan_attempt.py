"""An attempt to place more on a plan, step by step: best fit, making room, placing all again."""

from collections.abc import Mapping

import pytest

from cluster.decide.booking_plan import Item, ModelPlan, Placed, PlanAttempt
from cluster.decide.booking_plan.model_plan import DEPTH, SPANS


def _item(key: str, start: int = 5, end: int = 9, size: int = 1) -> Item:
    return Item(start=start, key=key, serial=0, end=end, size=size)


def _attempt(
    devices: Mapping[str, int], *placed: Placed, fixed_until: int = 0, steps: int = 2000
) -> PlanAttempt:
    return PlanAttempt(ModelPlan(devices, placed), fixed_until=fixed_until, steps=steps)


def _there(attempt: PlanAttempt, node: str) -> list[Item]:
    node_plan = attempt.node_plan(node)
    assert node_plan is not None
    return list(node_plan.items)


def test_the_largest_item_is_placed_first_so_that_all_find_room() -> None:
    one, two, large = _item("a", size=2), _item("b", size=2), _item("c", size=3)
    attempt = _attempt({"n0": 3, "n1": 4}, steps=0)
    assert attempt.place_all([one, two, large])
    assert dict(attempt.places) == {one: "n1", two: "n1", large: "n0"}


def test_items_that_the_attempt_has_already_placed_are_counted() -> None:
    attempt = _attempt({"n0": 1, "n1": 1})
    assert [attempt.place_all([_item(key)]) for key in "abc"] == [True, True, False]
    assert dict(attempt.places) == {_item("a"): "n0", _item("b"): "n1"}


# --- what an attempt is given --------------------------------------------------------------------------
def test_an_item_that_is_put_on_a_node_is_there_even_if_it_does_not_fit() -> None:
    attempt, item = _attempt({"n0": 1}), _item("a", size=9)
    attempt.put(item, "n0")
    assert dict(attempt.places) == {item: "n0"}
    assert _there(attempt, "n0") == [item]
    assert not attempt.place_all([_item("b")])


def test_an_unknown_node_has_no_plan() -> None:
    assert _attempt({"n0": 1}).node_plan("gone") is None


def test_items_make_room_for_each_other_in_a_row() -> None:
    four, three, two = _item("a", size=4), _item("b", size=3), _item("c", size=2)
    devices = {"n4": 4, "n3": 3, "n2": 2}
    attempt = _attempt(devices, (three, "n4"), (two, "n3"))
    assert attempt.place_all([four])
    assert dict(attempt.places) == {four: "n4", three: "n3", two: "n2"}


def test_no_room_is_made_where_an_item_in_the_way_finds_no_other_place() -> None:
    one, two = _item("a"), _item("b")
    attempt = _attempt({"n0": 2, "n1": 1}, (one, "n0"), (two, "n0"))
    assert not attempt.place_all([_item("c", size=2)])
    assert (_there(attempt, "n0"), _there(attempt, "n1")) == ([one, two], [])


def test_only_items_in_the_way_are_moved() -> None:
    way, aside, item = _item("a", 5, 9), _item("b", 20, 30), _item("c", 6, 8, 2)
    attempt = _attempt({"n0": 2, "n1": 1}, (way, "n0"), (aside, "n0"))
    assert attempt.place_all([item])
    assert dict(attempt.places) == {way: "n1", item: "n0"}


def test_items_that_must_be_on_the_same_node_are_not_moved_off_it() -> None:
    first, second = _item("a"), _item("b")
    attempt = _attempt({"n0": 1, "n1": 1})
    assert not attempt.place_all([first, second], {first: "n0", second: "n0"})
    assert attempt.place_all([first, second], {first: "n1"})
    assert dict(attempt.places) == {first: "n1", second: "n0"}


def _crowded(*placed: Placed, devices: Mapping[str, int]) -> PlanAttempt:
    """An attempt with more items, most of them on a node aside, than steps to place them all again."""
    aside = [(_item(f"z{number}"), "z") for number in range(30)]
    return _attempt({**devices, "z": 30}, *placed, *aside, steps=25)


def test_room_is_made_even_where_there_are_too_many_items_to_place_all_again() -> None:
    small, large = _item("a"), _item("b", size=2)
    attempt = _crowded((small, "n0"), devices={"n0": 2, "n1": 1})
    assert attempt.place_all([large])
    assert dict(attempt.places) == {small: "n1", large: "n0"}
    assert attempt.left == 23


@pytest.mark.parametrize(("moved", "is_placed"), [(DEPTH, True), (DEPTH + 1, False)])
def test_only_a_limited_number_of_items_in_a_row_make_room_for_each_other(
    moved: int, *, is_placed: bool
) -> None:
    sizes = range(40, 40 + moved)
    row = [(_item(f"r{size}", size=size), f"n{size + 1}") for size in sizes]
    devices = {f"n{size}": size for size in range(40, 41 + moved)}
    attempt = _crowded(*row, devices=devices)
    assert attempt.place_all([_item("a", size=40 + moved)]) == is_placed


# --- placing all again -----------------------------------------------------------------------------
_WIDE = _item("a", 4, 7, 3)
_EARLY, _LATE = _item("b", 1, 4), _item("c", 2, 5)
"""Best fit gives the first of them the only node that the second can have."""


@pytest.mark.parametrize("fixed_until", [0, 9])
def test_all_items_are_placed_again_where_no_room_can_be_made(fixed_until: int) -> None:
    attempt = _attempt({"n0": 1, "n1": 3}, (_WIDE, "n1"), fixed_until=fixed_until)
    assert attempt.place_all([_EARLY, _LATE])
    assert (attempt.places[_EARLY], attempt.places[_LATE]) == ("n1", "n0")
    assert (_there(attempt, "n0"), _there(attempt, "n1")) == ([_LATE], [_EARLY, _WIDE])


def test_nothing_changes_where_placing_all_again_fails_too() -> None:
    attempt = _attempt({"n0": 1, "n1": 3}, (_WIDE, "n1"))
    assert not attempt.place_all([_EARLY, _LATE, _item("d", 4, 5)])
    assert (_there(attempt, "n0"), _there(attempt, "n1")) == ([], [_WIDE])
    assert dict(attempt.places) == {}


def test_items_are_not_all_placed_again_where_they_outnumber_the_steps_left() -> None:
    attempt = _attempt({"n0": 1, "n1": 3}, (_WIDE, "n1"), steps=1)
    assert not attempt.place_all([_EARLY, _LATE])
    assert dict(attempt.places) == {}


# --- the limit of steps --------------------------------------------------------------------------------
def test_best_fit_costs_no_steps() -> None:
    attempt = _attempt({"n0": 1}, steps=0)
    assert attempt.place_all([_item("a")])
    assert attempt.left == 0


def test_without_steps_no_room_is_made() -> None:
    attempt = _attempt({"n0": 2, "n1": 1}, (_item("a"), "n0"), steps=0)
    assert not attempt.place_all([_item("b", size=2)])
    assert attempt.left == 0
    assert dict(attempt.places) == {}


def test_making_room_costs_steps() -> None:
    attempt = _attempt({"n0": 2, "n1": 1}, (_item("a"), "n0"), steps=10)
    assert attempt.place_all([_item("b", size=2)])
    assert attempt.left == 8


def test_the_rooms_of_many_spans_are_cached_for_a_while_and_always_right() -> None:
    plan = ModelPlan({"n0": 2}, [(_item("a", 10, 20), "n0")])
    first, _ = plan.rooms(0, 10), plan.rooms(0, 20)
    assert plan.rooms(0, 10) is first
    for end in range(1, 2 * SPANS):
        assert plan.rooms(0, end) == [(2 if end <= 10 else 1, "n0")]
        assert len(plan._rooms) <= SPANS
    assert plan.rooms(0, 10) == [(2, "n0")]
