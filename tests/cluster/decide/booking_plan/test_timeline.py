"""Load over time, against the same question asked instant by instant."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.decide.booking_plan import Timeline
from cluster.decide.booking_plan.segment import LENGTH

_LOADS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(1, 4)).filter(
        lambda load: load[0] < load[1]
    ),
    max_size=20,
)


def _level(loads: list[tuple[int, int, int]], at: int) -> int:
    return sum(amount for start, end, amount in loads if start <= at < end)


def _added(loads: list[tuple[int, int, int]]) -> Timeline:
    steps = Timeline()
    for load in loads:
        steps = steps.plus(*load)
    return steps


@given(_LOADS, st.data())
def test_a_load_that_is_removed_again_leaves_no_trace(
    loads: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    steps = _added(loads)
    rest = data.draw(st.permutations(loads))
    while rest:
        start, end, amount = rest.pop()
        steps = steps.plus(start, end, -amount)
        assert steps.levels_in(-1, 40) == Timeline.of(rest).levels_in(-1, 40)
    assert steps.spans() == []
    assert steps.next_change(-1) is None


@given(_LOADS, st.integers(0, 30), st.integers(1, 12), st.integers(0, 6))
def test_the_first_gap_begins_at_the_first_instant_with_a_low_level_for_long_enough(
    loads: list[tuple[int, int, int]], not_before: int, length: int, ceiling: int
) -> None:
    found = Timeline.of(loads).first_gap(not_before, length, ceiling)
    expected = next(
        start
        for start in range(not_before, 100)
        if all(_level(loads, at) <= ceiling for at in range(start, start + length))
    )
    assert found == expected


_LAST = 3000


def _a_load(chance: Random) -> tuple[int, int, int]:
    start = chance.randrange(_LAST - 100)
    return start, start + chance.randint(1, 100), chance.randint(1, 3)


@given(st.randoms(use_true_random=True))
@settings(max_examples=40)
def test_over_years_it_equals_a_reference_computed_instant_by_instant(chance: Random) -> None:
    loads = [_a_load(chance) for _ in range(600)]
    made = Timeline.of(loads[:300])
    steps = made
    for load in loads[300:]:
        steps = steps.plus(*load)
    for start, end, amount in loads[::3]:
        steps = steps.plus(start, end, -amount)
    left = [load for index, load in enumerate(loads) if index % 3]
    levels = [0] * (_LAST + 1)
    for start, end, amount in left:
        levels[start:end] = [level + amount for level in levels[start:end]]
    turns = [(0, levels[0]), *((at, levels[at]) for at in range(1, _LAST) if levels[at] != levels[at - 1])]
    assert steps.levels_in(0, _LAST) == turns
    assert made.levels_in(0, _LAST) == Timeline.of(loads[:300]).levels_in(0, _LAST), (
        "what it was made from is as it was"
    )
    for _ in range(20):
        start, length = chance.randrange(_LAST), chance.randint(1, 400)
        ceiling = chance.randint(-1, max(levels))
        span = levels[start : start + length]
        assert steps.most(start, start + length) == max(span)
        assert steps.busiest(start, start + length) == (start + span.index(max(span)), max(span))
        assert steps.next_change(start) == next((at for at, _ in turns if at > start), None)
        assert steps.first_gap(start, length, ceiling) == _first(levels, start, length, ceiling)


def _first(levels: list[int], start: int, length: int, ceiling: int) -> int | None:
    """The first gap, looking at each instant once; after the last one nothing is in use."""
    since: int | None = None
    for at in range(start, len(levels)):
        if levels[at] > ceiling:
            since = None
        elif since is None:
            since = at
        if since is not None and at + 1 - since >= length:
            break
    return since


def test_a_gap_is_found_across_many_steps() -> None:
    steps = Timeline.of([(at, at + 1, 1 + at % 2) for at in range(5000)])
    assert steps.first_gap(0, 10, 1) == 5000
    assert steps.first_gap(0, 10, 2) == 0
    assert steps.first_gap(7, 1, 1) == 8
    assert steps.first_gap(0, 10, -1) is None


# --- one statement each, on a few loads ----------------------------------------------------------------
_STAIRS = [(10, 40, 1), (20, 30, 2)]
"""1 from 10, 3 from 20, 1 from 30, nothing from 40."""


@pytest.mark.parametrize("is_added", [True, False])
def test_loads_that_touch_are_one_step_where_they_are_equal(*, is_added: bool) -> None:
    loads = [(0, 5, 2), (5, 9, 2)]
    steps = _added(loads) if is_added else Timeline.of(loads)
    assert steps.spans() == [(0, 9, 2)]
    assert steps.next_change(0) == 9


def test_the_spans_are_reported_with_their_levels_and_without_the_pauses() -> None:
    assert Timeline.of([*_STAIRS, (50, 60, 4)]).spans() == [
        (10, 20, 1),
        (20, 30, 3),
        (30, 40, 1),
        (50, 60, 4),
    ]


_MANY = 5 * LENGTH


def _long(*more: tuple[int, int, int]) -> Timeline:
    """A load of 1 in every other step of two, and these loads: several stretches."""
    return Timeline.of([*((at, at + 2, 1) for at in range(2, 4 * _MANY, 4)), *more])


def test_adding_a_load_rebuilds_only_its_own_stretches_and_shares_the_others() -> None:
    steps = _long()
    more = steps.plus(9, 11, 1)
    before, after = set(map(id, steps._stretches)), set(map(id, more._stretches))
    assert len(before) > 3
    assert len(after - before) == 1
    assert steps.most(9, 11) + 1 == more.most(9, 11)


def test_stretches_keep_about_the_same_length_when_loads_are_added_and_removed() -> None:
    steps = Timeline()
    loads = [(at, at + 2, 1) for at in range(0, 8 * _MANY, 4)]
    for load in loads:
        steps = steps.plus(*load)
    assert all(len(stretch.times) < 2 * LENGTH for stretch in steps._stretches)
    for start, end, amount in loads[:-8]:
        steps = steps.plus(start, end, -amount)
    assert len(steps._stretches) <= 2
    assert steps.spans() == loads[-8:]


def test_a_load_over_all_stretches_raises_every_one_of_them() -> None:
    steps, start, end = _long(), 1, 4 * _MANY - 1
    raised = steps.plus(start, end, 2)
    assert raised.most(start, end) == 3
    assert raised.most(0, 1) == 0
    assert raised.levels_in(0, 7) == [(0, 0), (1, 2), (2, 3), (4, 2), (6, 3)]
    assert raised.plus(start, end, -2).spans() == steps.spans()


def test_equal_loads_that_touch_leave_one_step_until_one_across_them_is_removed() -> None:
    steps = Timeline.of([(0, 10, 1)]).plus(10, 20, 1)
    assert steps.spans() == [(0, 20, 1)]
    assert steps.plus(5, 15, -1).spans() == [(0, 5, 1), (15, 20, 1)]
