"""What a whole run stores, and that the tree's documents agree with it."""

from pathlib import Path

import msgspec
import pytest

from tests.bench import document, results
from tests.bench.machine import LOAD, describe
from tests.bench.measures import KINDS, NEWER_THAN_THE_RESULTS
from tests.bench.rows import Kind, Row, Target, complete

ROWS = [Kind("a", "an a", "ms", "its floor", Target(ratio=2)).row(3.0, 2.0), Kind("b", "a b", "s").row(1.0)]
MACHINE = {"CPU": "two cores"}


def test_results_are_a_list_of_rows_and_are_read_as_they_were_written(tmp_path: Path) -> None:
    folder = tmp_path / "bench"
    results.write(ROWS, MACHINE, folder)
    raw = msgspec.json.decode((folder / "results.json").read_bytes())
    assert raw[0] == {
        "name": "a",
        "value": 3.0,
        "unit": "ms",
        "floor": 2.0,
        "ratio": 1.5,
        "target": 4.0,
        "holds": True,
    }
    assert results.read_rows(folder) == ROWS
    assert results.read_machine(folder) == MACHINE


def test_merging_rows_keeps_the_description_of_their_machine(tmp_path: Path) -> None:
    results.write(ROWS, MACHINE, tmp_path)
    again = Kind("b", "a b", "s").row(7.0)
    results.write_merged([again], ["a", "b"], tmp_path)
    assert results.read_rows(tmp_path) == [ROWS[0], again]
    assert results.read_machine(tmp_path) == MACHINE


def test_rows_of_another_machine_are_not_mixed_with_these(tmp_path: Path) -> None:
    results.write(ROWS, MACHINE, tmp_path)
    with pytest.raises(results.OtherMachineError) as refused:
        results.check_machine({"CPU": "four cores", "kernel": "7"}, tmp_path)
    assert "CPU was two cores and is four cores; kernel was not recorded and is 7." in str(refused.value)


def test_a_different_load_is_not_a_different_machine(tmp_path: Path) -> None:
    results.write(ROWS, {**MACHINE, LOAD: "0.1"}, tmp_path)
    results.check_machine({**MACHINE, LOAD: "1.9"}, tmp_path)


def test_the_description_of_a_machine_includes_its_load() -> None:
    assert LOAD in describe()


def test_a_row_without_its_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text('[{"value": 1}]')
    with pytest.raises(msgspec.ValidationError):
        results.read_rows(tmp_path)


def test_the_document_gets_machine_and_rows_where_its_marks_are() -> None:
    marks = [f"<!-- generated: {name} -->\nstale\n<!-- end -->\n" for name in ("machine", "rows", "growth")]
    text = "kept\n".join(marks)
    kinds = {"a": Kind("a", "an a", "ms", "its floor", Target(ratio=2)), "b": Kind("b", "a b", "s")}
    made = document.with_results(text, kinds=kinds, rows=ROWS, machine=MACHINE)
    assert "- CPU: two cores\n<!-- end -->\nkept\n" in made
    assert "stale" not in made
    assert "3.00 ms" in made
    assert document.with_results(made, kinds=kinds, rows=ROWS, machine=MACHINE) == made


def test_the_chart_is_written_next_to_the_document(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    text = "<!-- generated: growth -->\n<!-- end -->\n"
    (tmp_path / "performance.md").write_text(text)
    rows = [
        Kind(f"filter-{nodes}-{what}", "", "ms", "a floor").row(nodes / 1000, nodes / 2000)
        for nodes in (100, 5000)
        for what in ("p50", "p99", "echo-p50")
    ]
    document.write(kinds={}, rows=rows, machine=MACHINE, path=tmp_path / "performance.md")
    assert "| 5000 | 5 | 5 | 2.5 | 2.5 | 1 |" in (tmp_path / "performance.md").read_text()
    drawn = (tmp_path / document.CHART).read_text()
    assert drawn.count("<polyline") == 3
    for text in ("100", "5000", "ms", "filter, p50", "echo, p50", "codec, p50"):
        assert f">{text}</text>" in drawn


def near(number: float | None) -> object:
    """Equal, considering that both were rounded to four digits."""
    return None if number is None else pytest.approx(number, rel=2e-3)


class TestTheTree:
    def test_the_results_are_those_of_a_whole_run(self) -> None:
        rows = results.read_rows()
        complete([kind for name, kind in KINDS.items() if name not in NEWER_THAN_THE_RESULTS], rows)
        raw = msgspec.json.decode((results.FOLDER / "results.json").read_bytes())
        assert all(list(row) == list(Row.__struct_fields__) for row in raw)

    def test_ratio_target_and_verdict_follow_from_the_numbers(self) -> None:
        for row in results.read_rows():
            again = KINDS[row.name].row(row.value, row.floor)
            assert row.unit == again.unit
            assert row.ratio == near(again.ratio)
            assert row.target == near(again.target)
            # Four digits are kept: for a value that is just at its target this cannot be checked.
            assert row.holds == again.holds or row.value == row.target

    def test_the_document_shows_these_rows(self) -> None:
        text = document.DOCUMENT.read_text()
        rows, machine = results.read_rows(), results.read_machine()
        assert {kind for kind in KINDS if f"`{kind}`" in text} == set(KINDS) - NEWER_THAN_THE_RESULTS
        assert document.with_results(text, kinds=KINDS, rows=rows, machine=machine) == text
