"""The script on the machine with the GPU: what it refuses, and what its report says."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster.bundle import run
from devcluster.bundle.run import CannotPlayError, Played
from devcluster.paths import CHECKOUT

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
RIGHT = Played("a pod computes", "right", 12.3, "")
SKIPPED = Played("a pod waits", "not tested", 0.1, "NO REAL GPU HERE")
WRONG = Played("a pod sees none", "wrong", 3.0, "AssertionError: it sees one")


def manifest(folder: Path, **changed: object) -> dict[str, object]:
    (folder / "part-00").write_bytes(b"packed")
    digest = "1af7e50a90ecbf3e9ab06b7ab5f4fb86b7c8f4f1e0e3e9b5f8a5df6d1d1ed9b0"
    facts = {"version": "1.2.3", "python": HERE, "machine": platform.machine(), "parts": {"part-00": digest}}
    return facts | changed


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"python": "3.99"}, "the packages are for 3.99"),
        ({"machine": "vax"}, "the binaries are for vax"),
        ({}, "not what was packed"),
    ],
)
def test_a_run_reports_why_it_cannot_start_here(
    tmp_path: Path, changed: dict[str, object], message: str
) -> None:
    with pytest.raises(CannotPlayError, match=message):
        run.check(manifest(tmp_path, **changed), tmp_path / "unpacked", tmp_path, root=True)


def test_a_run_needs_root_and_a_folder_that_nodes_see(tmp_path: Path) -> None:
    with pytest.raises(CannotPlayError, match="root"):
        run.check(manifest(tmp_path), tmp_path / "unpacked", tmp_path, root=False)
    with pytest.raises(CannotPlayError, match="hidden"):
        run.check(manifest(tmp_path), Path("/run/here"), tmp_path, root=True)


def test_the_report_names_every_test_and_what_was_not_tested() -> None:
    text = run.render({"version": "1.2.3"}, {"GPUs": "none"}, {"hardware": [RIGHT, SKIPPED, WRONG]})
    assert "- GPUs: none" in text
    assert "| a pod computes | right | 12.3 |" in text
    assert "- wrong: AssertionError: it sees one" in text
    assert "**Not tested on hardware: 1.** a pod waits" in text


@pytest.mark.parametrize(
    ("hardware", "rehearsed", "status"),
    [
        ([RIGHT, SKIPPED], [], 0),
        ([RIGHT, WRONG], [], run.WRONG),
        ([SKIPPED], [RIGHT], run.NOTHING_TESTED),
        ([SKIPPED], [WRONG], run.WRONG),
    ],
)
def test_a_rehearsal_does_not_count_as_a_test_of_hardware(
    hardware: list[Played], rehearsed: list[Played], status: int
) -> None:
    assert run.status({"hardware": hardware, "rehearsal": rehearsed}) == status


PLAYED = """
import pytest

def test_a_b():
    pass

def test_c():
    assert 1 == 2, "one is not two"

@pytest.fixture
def card():
    pytest.skip("no card")

def test_d(card):
    pass
"""


def test_the_outcomes_of_tests_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "test_played.py").write_text(PLAYED)
    recorded = tmp_path / "recorded"
    environment = {**os.environ, "TEST_REPORT": str(recorded), "PYTHONPATH": str(CHECKOUT)}
    plugins = ("-p", "devcluster.bundle.report_plugin", "-p", "no:randomly", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *plugins, "test_played.py"]
    subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    first, second, third = [Played(**json.loads(line)) for line in recorded.read_text().splitlines()]
    assert (first.name, first.outcome, first.why) == ("a b", "right", "")
    assert (second.name, second.outcome) == ("c", "wrong")
    assert "one is not two" in second.why
    assert (third.name, third.outcome, third.why) == ("d", "not tested", "no card")
