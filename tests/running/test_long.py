"""What the long tier plays, and what it reports and keeps."""

from pathlib import Path

import msgspec
import pytest

from tests.running.long import ROOM, Row, files, keep, result_of, table
from tests.running.outcome import Failure, Played

GREEN = Row("tests/long/test_a.py", "abc1234", "green", 12.0, 7)
RED = Row("tests/long/test_b.py", "abc1234", "RED: test_b", 3.0, 8)


def failure(test: str, law: str | None = None) -> Failure:
    return Failure(f"tests/long/test_b.py::{test}", "call", "AssertionError", law)


def test_without_a_selection_every_file_runs_including_those_in_folders() -> None:
    found = files("")
    assert ROOM / "test_chain.py" in found
    assert any(file.parent.name == "fire" for file in found)
    assert all(file.name.startswith("test_") for file in found)


def test_a_file_or_a_folder_can_run_alone() -> None:
    assert files("tests/long/test_chain.py") == [ROOM / "test_chain.py"]
    assert {file.parent for file in files("tests/long/fire")} == {ROOM / "fire"}


@pytest.mark.parametrize(
    ("code", "played", "expected"),
    [
        (0, Played((), 0), "green"),
        (0, Played((), 2), "green, 2 skipped"),
        (5, Played((), 0), "green, no test"),
        (1, Played((failure("test_b"), failure("test_c"), failure("test_c")), 0), "RED: test_b, test_c"),
        (1, Played((failure("test_b"), failure("test_c", law="L1")), 0), "RED: law L1 broken in test_c"),
        (-9, None, "RED: exit status -9"),
        (None, None, "RED: not at its end within 7200 s"),
    ],
)
def test_a_result_names_the_failed_tests(code: int | None, played: Played | None, expected: str) -> None:
    assert result_of(code, played) == expected


def test_the_table_has_a_line_per_file() -> None:
    lines = table([GREEN, RED])
    assert len(lines) == 2
    assert all(word in lines[1] for word in ("tests/long/test_b.py", "abc1234", "3 s", "8", "RED: test_b"))


def test_the_last_result_of_every_file_is_kept(tmp_path: Path) -> None:
    record = tmp_path / "folder" / "long.json"
    keep([GREEN, RED], record)
    again = msgspec.structs.replace(RED, result="green", commit="def5678")
    keep([again], record)
    assert msgspec.json.decode(record.read_bytes(), type=list[Row]) == [GREEN, again]
