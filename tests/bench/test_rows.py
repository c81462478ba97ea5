"""Rows: the arithmetic of floors and targets, and that every measure has rows of its own."""

import msgspec
import pytest

from tests.bench.measures import KINDS, MEASURES
from tests.bench.rows import Kind, Row, Target, complete, merged


def test_a_row_states_its_ratio_to_its_floor() -> None:
    row = Kind("filter", "filter", "ms", "reading and writing").row(6.0, 4.0)
    assert (row.floor, row.ratio, row.target, row.holds) == (4.0, 1.5, None, None)


def test_a_row_without_a_floor_has_no_ratio() -> None:
    assert Kind("start", "start", "s").row(5.0) == Row("start", 5.0, "s", None, None, None, None)


def test_a_floor_of_zero_gives_no_ratio() -> None:
    assert Kind("filter", "filter", "ms", "nothing").row(6.0, 0.0).ratio is None


@pytest.mark.parametrize(("kind", "floor"), [(Kind("a", "a", "s", "f"), None), (Kind("a", "a", "s"), 1.0)])
def test_a_row_has_a_floor_exactly_where_its_kind_describes_one(kind: Kind, floor: float | None) -> None:
    with pytest.raises(ValueError, match="The row a "):
        kind.row(1.0, floor)


@pytest.mark.parametrize(
    ("target", "value", "bound", "holds"),
    [
        (Target(value=3), 3.0, 3.0, True),
        (Target(value=3), 3.1, 3.0, False),
        (Target(ratio=2), 4.0, 4.0, True),
        (Target(ratio=2), 4.1, 4.0, False),
        (Target(value=3, ratio=2), 3.5, 3.0, False),
        (Target(value=9, ratio=2), 4.5, 4.0, False),
        (Target(ratio=0.5, at_least=True), 1.0, 1.0, True),
        (Target(ratio=0.5, at_least=True), 0.9, 1.0, False),
        (Target(value=5, ratio=0.5, at_least=True), 4.0, 5.0, False),
    ],
)
def test_a_target_is_stated_in_the_unit_of_the_row_and_both_of_its_parts_must_hold(
    target: Target, value: float, bound: float, *, holds: bool
) -> None:
    row = Kind("a", "a", "ms", "a floor of two", target).row(value, 2.0)
    assert (row.target, row.holds) == (bound, holds)


def test_a_row_is_judged_by_the_measured_value_and_not_by_the_shown_one() -> None:
    row = Kind("a", "a", "ms", target=Target(value=3)).row(3.0001)
    assert (row.value, row.target, row.holds) == (3.0, 3.0, False)


def test_a_target_is_stated_in_words() -> None:
    assert Target(value=3, ratio=1.5).text == "<= 3, 1.5 x floor"
    assert Target(ratio=0.85, at_least=True).text == ">= 0.85 x floor"


def test_every_measure_and_every_row_has_a_name_of_its_own() -> None:
    named = [kind.name for measure in MEASURES for kind in measure.kinds]
    assert len(set(named)) == len(named) == len(KINDS)
    assert len({measure.name for measure in MEASURES}) == len(MEASURES)


def test_a_missing_or_repeated_row_is_named() -> None:
    kinds = [Kind("a", "a", "s"), Kind("b", "b", "s")]
    a, b = (kind.row(1.0) for kind in kinds)
    complete(kinds, [b, a])
    for wrong in ([a], [a, b, b], [a, b, Kind("c", "c", "s").row(1.0)]):
        with pytest.raises(ValueError, match="Not what was to be measured"):
            complete(kinds, wrong)


def test_a_row_has_the_fields_of_the_results_and_no_others() -> None:
    named = [field.name for field in msgspec.structs.fields(Row)]
    assert named == ["name", "value", "unit", "floor", "ratio", "target", "holds"]


def test_a_measure_taken_alone_is_merged_in_its_place_among_the_others() -> None:
    old, new = Kind("a", "a thing", "ms"), Kind("b", "another", "ms")
    kept = [old.row(1.0), new.row(2.0), Kind("gone", "what was", "ms").row(3.0)]
    found = merged(kept, [new.row(5.0)], ["b", "a", "later"])
    assert [(row.name, row.value) for row in found] == [("b", 5.0), ("a", 1.0)]
