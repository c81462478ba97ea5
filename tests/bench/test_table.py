"""The printed table."""

import pytest

from tests.bench.rows import Kind, Target
from tests.bench.table import cells, failures, number, percentile, render

FILTER = Kind("filter", "filter over HTTP", "ms", "reading and writing", Target(ratio=1.2))
START = Kind("start", "a start", "s")


def test_a_row_is_shown_with_its_floor_and_its_target() -> None:
    assert cells(FILTER, FILTER.row(6.0, 4.0)) == (
        "`filter`",
        "filter over HTTP",
        "6.00 ms",
        "4.00 ms (reading and writing)",
        "1.50",
        "<= 1.2 x floor",
        "**no**",
    )


def test_missing_values_of_a_row_are_shown_as_dashes() -> None:
    assert cells(START, START.row(5.0))[3:] == ("-", "-", "-", "-")


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.01234, "0.0123"), (4.561, "4.56"), (45.61, "45.6"), (1234.4, "1234")]
)
def test_numbers_have_the_digits_that_matter(value: float, text: str) -> None:
    assert number(value) == text


def test_percentiles_lie_between_measured_values() -> None:
    times = [float(n) for n in range(101)]
    assert [percentile(times, p) for p in (50, 95, 99)] == [50, 95, 99]
    assert percentile([7.0], 99) == 7.0


def test_the_table_is_aligned_markdown() -> None:
    lines = render({"filter": FILTER, "start": START}, [START.row(1.0), FILTER.row(2.0, 1.0)]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[1].startswith("|---")
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["`start`", "`filter`"]


def test_each_missed_target_is_reported_and_nothing_else() -> None:
    missed, kept = FILTER.row(6.0, 4.0), FILTER.row(4.0, 4.0)
    assert failures([missed, kept, START.row(1.0)]) == ["filter: 6.00 ms, and the target is 4.80."]
