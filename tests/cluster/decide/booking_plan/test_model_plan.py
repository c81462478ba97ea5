"""The search for places, against an exhaustive one on small cases."""

from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cluster.decide.booking_plan import Item, ModelPlan, Placed, PlanAttempt

_NEVER_BEGUN = -1


def _item(key: int, start: int, length: int, size: int) -> Item:
    return Item(start=start, key=f"b{key}", serial=0, end=start + length, size=size)


_ITEMS = st.lists(
    st.tuples(st.integers(0, 8), st.integers(1, 6), st.integers(1, 4)), min_size=1, max_size=7
).map(lambda drawn: [_item(key, *each) for key, each in enumerate(drawn)])
_DEVICES = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(
    lambda counts: {f"n{index}": count for index, count in enumerate(counts)}
)


def _is_placeable(items: list[Item], devices: dict[str, int]) -> bool:
    """By trying everything."""
    ordered = sorted(items)

    @cache
    def search(index: int, placed: tuple[tuple[str, int], ...]) -> bool:
        if index == len(ordered):
            return True
        item = ordered[index]
        for name, count in devices.items():
            there = [ordered[other] for node, other in placed if node == name]
            load = sum(one.size for one in there if one.end > item.start)
            if load + item.size <= count and search(index + 1, (*placed, (name, index))):
                return True
        return False

    return search(0, ())


def _demand_valid(places: dict[Item, str], devices: dict[str, int]) -> None:
    for at in range(20):
        for name, count in devices.items():
            load = sum(i.size for i, node in places.items() if node == name and i.start <= at < i.end)
            assert load <= count


@given(_ITEMS, _DEVICES)
def test_placed_items_fit_at_every_instant_and_small_calendars_are_placed_whenever_possible(
    items: list[Item], devices: dict[str, int]
) -> None:
    attempt = PlanAttempt(ModelPlan(devices), fixed_until=_NEVER_BEGUN)
    is_settled = attempt.place_all(items)
    assert is_settled == _is_placeable(items, devices)
    places = dict(attempt.places)
    assert set(places) == (set(items) if is_settled else set())
    _demand_valid(places, devices)


@given(_ITEMS, _DEVICES)
def test_items_placed_one_by_one_never_exceed_the_devices_and_never_lose_their_place(
    items: list[Item], devices: dict[str, int]
) -> None:
    placed: dict[Item, str] = {}
    for item in items:
        plan = ModelPlan(devices, placed.items())
        attempt = PlanAttempt(plan, fixed_until=_NEVER_BEGUN)
        is_settled = attempt.place_all([item])
        before = placed
        placed = {**placed, **attempt.places}
        assert is_settled == _is_placeable([*before, item], devices)
        assert set(placed) == ({*before, item} if is_settled else set(before))
        _demand_valid(placed, devices)


@given(_ITEMS, _DEVICES, st.integers(0, 8))
@example([_item(0, 0, 4, 1), _item(1, 2, 4, 2)], {"n0": 2, "n1": 2}, 1)
def test_an_item_that_has_begun_is_never_moved(items: list[Item], devices: dict[str, int], now: int) -> None:
    placed: dict[Item, str] = {}
    for item in items:
        attempt = PlanAttempt(ModelPlan(devices, placed.items()), fixed_until=now)
        attempt.place_all([item])
        moved = {one: node for one, node in attempt.places.items() if placed.get(one, node) != node}
        assert all(one.start > now for one in moved)
        placed |= attempt.places
        _demand_valid(placed, devices)


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 8)), min_size=1, max_size=25),
    _DEVICES,
)
def test_single_devices_always_find_a_place_where_the_sum_fits(
    drawn: list[tuple[int, int]], devices: dict[str, int]
) -> None:
    placed: dict[Item, str] = {}
    for key, (start, length) in enumerate(drawn):
        item = _item(key, start, length, 1)
        together = [*placed, item]
        fits = all(
            sum(one.start <= at < one.end for one in together) <= sum(devices.values())
            for at in range(start, start + length)
        )
        attempt = PlanAttempt(ModelPlan(devices, placed.items()), fixed_until=_NEVER_BEGUN)
        assert attempt.place_all([item]) == fits
        placed |= attempt.places


@given(_ITEMS, _DEVICES)
def test_an_attempt_that_reaches_its_limit_of_steps_changes_nothing(
    items: list[Item], devices: dict[str, int]
) -> None:
    attempt = PlanAttempt(ModelPlan(devices), fixed_until=_NEVER_BEGUN, steps=0)
    if not attempt.place_all(items):
        assert dict(attempt.places) == {}
        assert all(node_plan.load.most(0, 50) == 0 for node_plan in attempt.plan().node_plans.values())


def test_room_is_made_by_moving_items_that_have_not_begun() -> None:
    small, large = _item(0, 5, 5, 1), _item(1, 6, 2, 2)
    running = _item(2, 0, 20, 1)
    plan = ModelPlan({"n0": 2, "n1": 2}, [(small, "n0"), (running, "n1")])
    attempt = PlanAttempt(plan, fixed_until=1)
    assert attempt.place_all([large])
    assert dict(attempt.places) == {small: "n1", large: "n0"}


def test_an_item_that_must_be_on_a_node_is_placed_there_or_not_at_all() -> None:
    other, item = _item(0, 5, 5, 2), _item(1, 6, 2, 2)
    attempt = PlanAttempt(ModelPlan({"n0": 2, "n1": 2}, [(other, "n0")]), fixed_until=1)
    assert attempt.place_all([item], {item: "n0"})
    assert dict(attempt.places) == {other: "n1", item: "n0"}
    bound = PlanAttempt(ModelPlan({"n0": 2, "n1": 2}, [(other, "n0")]), fixed_until=5)
    assert not bound.place_all([item], {item: "n0"})


def test_blocks_take_devices_for_their_time_and_no_more_than_there_are() -> None:
    plan = ModelPlan({"n0": 2}, blocks=[("n0", 5, 8, 9), ("gone", 0, 9, 1)])
    assert PlanAttempt(plan, fixed_until=0).place_all([_item(0, 8, 3, 2)])
    assert not PlanAttempt(plan, fixed_until=0).place_all([_item(0, 7, 3, 1)])
    assert list(plan.overfull(0)) == []
    assert plan.first_gap(0, 4, 2) == 0
    assert plan.first_gap(2, 4, 2) == 8


def test_overfull_spans_and_items_without_a_node_are_found() -> None:
    here, away = _item(0, 2, 5, 2), _item(1, 2, 5, 1)
    plan = ModelPlan({"n0": 1}, [(here, "n0"), (away, "gone")])
    assert list(plan.overfull(0)) == [("n0", 2, 7)]
    assert list(plan.overfull(4)) == [("n0", 4, 7)]
    assert plan.unplaced == (away,)


@given(_ITEMS, _DEVICES, st.data())
def test_a_changed_plan_is_the_one_that_a_fresh_computation_makes(
    items: list[Item], devices: dict[str, int], data: st.DataObject
) -> None:
    nodes = st.sampled_from([*devices, "gone"])
    placed: list[Placed] = [(item, data.draw(nodes)) for item in items]
    cut = data.draw(st.integers(0, len(placed)))
    more = [(_item(100 + index, 1, 3, 1), data.draw(nodes)) for index in range(2)]
    changed = ModelPlan(devices, placed).changed(placed[:cut], more)
    fresh = ModelPlan(devices, [*placed[cut:], *more])
    assert changed.unplaced == fresh.unplaced
    for name in devices:
        assert list(changed.node_plans[name].items) == list(fresh.node_plans[name].items)
        assert changed.node_plans[name].load.levels_in(0, 50) == fresh.node_plans[name].load.levels_in(0, 50)


# --- which node, and who moves -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "length", "rooms"),
    [
        (0, 2, [(1, "n2"), (2, "n0"), (3, "n1")]),
        (0, 3, [(0, "n0"), (1, "n2"), (3, "n1")]),
        (4, 2, [(0, "n0"), (1, "n2"), (2, "n1")]),
        (6, 1, [(1, "n2"), (2, "n0"), (2, "n1")]),
        (7, 9, [(1, "n2"), (2, "n0"), (3, "n1")]),
    ],
)
def test_rooms_are_the_devices_free_for_a_whole_span_the_smallest_room_first(
    start: int, length: int, rooms: list[tuple[int, str]]
) -> None:
    plan = ModelPlan(
        {"n1": 3, "n0": 2, "n2": 1}, [(_item(0, 2, 4, 2), "n0")], [("n1", 5, 7, 1), ("n2", 20, 30, 1)]
    )
    assert plan.rooms(start, start + length) == rooms
    assert plan.rooms(start, start + length) == rooms


def test_a_thousand_spans_each_get_their_own_answer() -> None:
    plan = ModelPlan({"n0": 2}, [(_item(0, 500, 1, 1), "n0")])
    for _ in range(2):
        assert [start for start in range(1_000) if plan.rooms(start, start + 1) == [(1, "n0")]] == [500]


@pytest.mark.parametrize(
    ("size", "node"), [(1, "n2"), (2, "n0"), (3, "n1")], ids=["single", "double", "triple"]
)
def test_an_item_goes_to_the_smallest_room_that_is_large_enough(size: int, node: str) -> None:
    attempt = PlanAttempt(ModelPlan({"n0": 2, "n1": 3, "n2": 1}), fixed_until=0)
    item = _item(0, 1, 5, size)
    assert attempt.place_all([item])
    assert dict(attempt.places) == {item: node}


def test_the_first_of_equal_rooms_by_name_is_taken_whether_it_was_touched_or_not() -> None:
    plan = ModelPlan({"n1": 2, "n0": 2, "n2": 2})
    attempt = PlanAttempt(plan, fixed_until=0)
    one, other = _item(0, 1, 5, 2), _item(1, 1, 5, 1)
    assert attempt.place_all([other, one])
    assert dict(attempt.places) == {one: "n0", other: "n1"}
    assert plan.rooms(1, 6) == [(2, "n0"), (2, "n1"), (2, "n2")]


def test_a_pinned_item_stays_though_it_has_not_begun() -> None:
    small, large = _item(0, 5, 5, 1), _item(1, 6, 2, 2)
    plan = ModelPlan({"n0": 2, "n1": 2}, [(small, "n0"), (_item(2, 0, 20, 1), "n1")])
    attempt = PlanAttempt(plan, fixed_until=1)
    attempt.fix([small])
    assert not attempt.place_all([large])
    assert dict(attempt.places) == {}


@pytest.mark.parametrize(("fixed_until", "moves"), [(4, True), (5, False), (6, False)])
def test_items_that_begin_by_the_fixed_instant_are_not_moved_for_others(
    fixed_until: int, *, moves: bool
) -> None:
    small, large = _item(0, 5, 5, 1), _item(1, 6, 2, 2)
    plan = ModelPlan({"n0": 2, "n1": 1}, [(small, "n0")])
    assert PlanAttempt(plan, fixed_until=fixed_until).place_all([large]) is moves


def test_a_failed_attempt_keeps_earlier_items_and_counts_its_steps() -> None:
    attempt = PlanAttempt(ModelPlan({"n0": 2}), fixed_until=0, steps=50)
    before = _item(0, 1, 5, 1)
    attempt.put(before, "n0")
    assert not attempt.place_all([_item(1, 2, 2, 2)])
    assert dict(attempt.places) == {before: "n0"}
    left = attempt.left
    assert left < 50
    assert not attempt.place_all([_item(2, 2, 2, 3)])
    assert attempt.left < left
    node = attempt.node_plan("n0")
    assert node is not None
    assert node.room(1, 6) == 1
    assert attempt.node_plan("gone") is None


def test_an_item_that_is_taken_off_has_no_place_until_it_is_put_again() -> None:
    item = _item(0, 1, 5, 2)
    attempt = PlanAttempt(ModelPlan({"n0": 2, "n1": 3}, [(item, "n0")]), fixed_until=0)
    attempt.take(item, "n0")
    assert dict(attempt.places) == {}
    assert attempt.plan().rooms(1, 6) == [(2, "n0"), (3, "n1")]
    attempt.put(item, "n1")
    assert dict(attempt.places) == {item: "n1"}
    assert attempt.plan().rooms(1, 6) == [(1, "n1"), (2, "n0")]


def test_an_item_that_must_be_on_a_node_that_is_gone_has_no_place() -> None:
    item = _item(0, 1, 5, 1)
    assert not PlanAttempt(ModelPlan({"n0": 2}), fixed_until=0).place_all([item], {item: "gone"})


@pytest.mark.parametrize(
    ("not_before", "length", "size", "at"),
    [
        (0, 5, 2, 0),
        (0, 6, 2, 9),
        (1, 5, 2, 9),
        (1, 5, 1, 1),
        (6, 9, 1, 6),
        (0, 1, 3, None),
    ],
)
def test_the_first_gap_is_the_first_instant_at_which_some_node_has_room(
    not_before: int, length: int, size: int, at: int | None
) -> None:
    plan = ModelPlan({"n0": 2, "n1": 1}, [(_item(0, 5, 4, 1), "n0")])
    assert plan.first_gap(not_before, length, size) == at


def test_overfull_spans_are_listed_separately_from_the_instant_on() -> None:
    long, early, late = _item(0, 0, 9, 1), _item(1, 1, 2, 1), _item(2, 5, 2, 2)
    plan = ModelPlan(
        {"n0": 1, "n1": 4}, [(long, "n0"), (early, "n0"), (late, "n0"), (_item(3, 0, 9, 4), "n1")]
    )
    assert list(plan.overfull(0)) == [("n0", 1, 3), ("n0", 5, 7)]
    assert list(plan.overfull(3)) == [("n0", 5, 7)]
    assert list(plan.overfull(7)) == []
