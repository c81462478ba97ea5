"""The arithmetic of the table."""

import pytest

from tests.bench.table import Floor, Row, cells, number, percentile, render


def test_a_row_says_how_many_times_its_floor_it_is() -> None:
    row = Row("filter", 6.0, "ms", Floor(4.0, "reading and writing"))
    assert row.ratio == 1.5
    assert cells(row) == ("filter", "6.00 ms", "4.00 ms (reading and writing)", "1.50")


def test_a_row_without_a_floor_has_no_ratio() -> None:
    assert cells(Row("start", 5.0, "s"))[2:] == ("-", "-")


def test_a_floor_of_nothing_is_not_divided_by() -> None:
    assert Row("filter", 6.0, "ms", Floor(0.0, "nothing")).ratio is None


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
    lines = render([Row("a", 1.0, "s"), Row("longer", 2.0, "s", Floor(1.0, "f"))]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[1].startswith("|---")
    assert lines[3].split("|")[1].strip() == "longer"
