"""The record of tests that flaked."""

from pathlib import Path

from tests.running.flakes import Flake, flake, keep, line_of, read, table
from tests.running.outcome import Failure

FAILURE = Failure(
    test="tests/e2e/test_x.py::test_a",
    when="call",
    reason="AssertionError: late",
    at="2026-11-23T09:00:00+00:00",
    load=3.5,
    steal=12.0,
)


def test_flakes_are_added_to_the_record_and_read_again(tmp_path: Path) -> None:
    record = tmp_path / "folder" / "flakes.jsonl"
    keep([], record)
    assert not record.exists()
    keep([flake(FAILURE, "abc1234")], record)
    keep([flake(FAILURE, "def5678+")], record)
    assert [kept.commit for kept in read(record)] == ["abc1234", "def5678+"]
    assert read(record)[0] == Flake(
        "2026-11-23T09:00:00+00:00", "abc1234", FAILURE.test, "AssertionError: late", 3.5, 12.0
    )


def test_the_table_has_a_line_per_flake_below_its_head() -> None:
    head, row = table([flake(FAILURE, "abc1234")])
    assert head.split() == ["time", "commit", "test", "load", "steal", "reason"]
    assert row.split() == [
        *("2026-11-23T09:00:00+00:00", "abc1234", FAILURE.test, "3.5", "12.0%"),
        *("AssertionError:", "late"),
    ]


def test_without_a_flake_the_table_is_a_message(tmp_path: Path) -> None:
    assert table(read(tmp_path / "flakes.jsonl")) == ["No test has flaked here since flakes.jsonl was begun."]


def test_a_flake_is_reported_with_its_first_reason() -> None:
    assert line_of(FAILURE) == "FLAKED: tests/e2e/test_x.py::test_a: AssertionError: late"
