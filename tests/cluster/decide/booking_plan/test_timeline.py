"""Load over time, against the same question asked instant by instant."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.decide.booking_plan import Timeline

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


@given(_LOADS, st.integers(0, 30), st.integers(1, 10))
def test_the_highest_level_of_a_span_is_that_of_its_fullest_instant(
    loads: list[tuple[int, int, int]], start: int, length: int
) -> None:
    for steps in (Timeline.of(loads), _added(loads)):
        levels = [_level(loads, at) for at in range(start, start + length)]
        assert steps.most(start, start + length) == max(levels)
        assert steps.busiest(start, start + length) == (start + levels.index(max(levels)), max(levels))


@given(_LOADS, st.data())
def test_what_is_taken_away_again_leaves_no_trace(
    loads: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    steps = _added(loads)
    rest = data.draw(st.permutations(loads))
    while rest:
        start, end, amount = rest.pop()
        steps = steps.plus(start, end, -amount)
        assert steps.turns(-1, 40) == Timeline.of(rest).turns(-1, 40)
    assert steps.spans() == []
    assert steps.next_turn(-1) is None


@given(_LOADS, st.integers(0, 30), st.integers(1, 12), st.integers(0, 6))
def test_the_first_gap_is_the_first_instant_from_which_the_level_is_low_for_long_enough(
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
def test_of_years_it_knows_what_asking_instant_by_instant_finds(chance: Random) -> None:
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
    assert steps.turns(0, _LAST) == turns
    assert made.turns(0, _LAST) == Timeline.of(loads[:300]).turns(0, _LAST), (
        "what it was made from is as it was"
    )
    for _ in range(20):
        start, length = chance.randrange(_LAST), chance.randint(1, 400)
        ceiling = chance.randint(-1, max(levels))
        span = levels[start : start + length]
        assert steps.most(start, start + length) == max(span)
        assert steps.busiest(start, start + length) == (start + span.index(max(span)), max(span))
        assert steps.next_turn(start) == next((at for at, _ in turns if at > start), None)
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
