"""The stage of whole clusters, played on small folders of tests: what flakes, what is red, what is shown."""

import re
from pathlib import Path

import pytest

from tests.running import flakes
from tests.running.e2e import judge, report
from tests.running.summary import LINES
from tests.running.verdict import Verdict

HEAD = "import pathlib, pytest\nfrom tests.laws.broken import LawBrokenError\npytestmark = pytest.mark.e2e\n"
ONCE = """
def test_falls_once():
    log = pathlib.Path(__file__).with_suffix('.log')
    tries = log.read_text() if log.exists() else ''
    log.write_text(tries + 'x')
    assert tries, 'the API server was late'
"""


def played(folder: Path, program: str) -> Verdict:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = e2e\n")
    (folder / "plays").mkdir()
    (folder / "plays" / "test_some.py").write_text(HEAD + program)
    return judge("plays", [], checkout=folder)


def log_of(folder: Path) -> str:
    return (folder / "plays" / "test_some.log").read_text()


def test_a_test_that_fails_once_flakes_and_the_others_are_not_repeated(tmp_path: Path) -> None:
    counted = "def test_other():\n    with open(__file__ + '.other', 'a') as log: log.write('x')\n"
    found = played(tmp_path, ONCE + counted)
    assert found.red == ""
    assert report(found) == [
        "FLAKED: plays/test_some.py::test_falls_once: AssertionError: the API server was late"
    ]
    assert log_of(tmp_path) == "xx"
    assert (tmp_path / "plays" / "test_some.py.other").read_text() == "x"
    (kept,) = [flakes.flake(failure, "abc1234") for failure in found.flaked]
    assert (kept.test, kept.commit) == ("plays/test_some.py::test_falls_once", "abc1234")


def test_a_test_that_fails_twice_is_red_and_its_evidence_is_shown(tmp_path: Path) -> None:
    found = played(tmp_path, "def test_a():\n    assert 1 == 2\ndef test_b(): pass\n")
    assert found.red == "plays/test_some.py::test_a failed twice: AssertionError: assert 1 == 2"
    shown = report(found)
    assert shown[0] == "RED:"
    assert shown[1] == "  stage e2e"
    assert found.red in shown[2]
    assert any("E       assert 1 == 2" in line for line in shown)
    assert len(shown) < LINES


def test_a_broken_law_is_red_at_once_and_never_repeated(tmp_path: Path) -> None:
    breaks = ONCE.replace("assert tries, 'the API server was late'", "raise LawBrokenError('L1', 'two pods')")
    found = played(tmp_path, f"{breaks}def test_later(): assert 0\n")
    assert found.red == "law L1 broken in plays/test_some.py::test_falls_once"
    assert log_of(tmp_path) == "x"


def test_three_failures_end_the_run_and_are_not_repeated(tmp_path: Path) -> None:
    found = played(tmp_path, "".join(f"def test_{n}(): assert 0\n" for n in range(4)))
    assert re.match(r"plays/test_some\.py::test_\d failed: ", found.red)
    assert found.red.endswith("; not played any more: 1")


@pytest.mark.parametrize(
    "program", ["", "import nothing_of_this_name\n", "def test_a(): pytest.skip('no')\n"]
)
def test_a_run_without_a_verdict_is_red(tmp_path: Path, program: str) -> None:
    assert played(tmp_path, program).red
