"""One run at a time, and what a waiting run reports."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.fake.clock import FakeClock
from tests.running.turn import ON_CLUSTERS, REMIND, SIDE_BY_SIDE, TAKEN, starts_clusters, turn

HOLD = (
    "import sys; from pathlib import Path; from tests.running.turn import turn\n"
    "with turn('make test', print, file=Path(sys.argv[1])):\n"
    "    print('mine', flush=True)\n"
    "    sys.stdin.readline()"
)


@pytest.fixture(autouse=True)
def _of_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TAKEN, raising=False)
    monkeypatch.delenv(SIDE_BY_SIDE, raising=False)


class Waiting(FakeClock):
    """Virtual time in which something happens after so many seconds of waiting."""

    def __init__(self, seconds: float, then: Callable[[], object]) -> None:
        super().__init__(self_advancing=True)
        self._seconds, self._then = seconds, then

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if self.monotonic() <= self._seconds < self.monotonic() + seconds:
            self._then()
        return super().wait(event, seconds)


@contextmanager
def another_run(file: Path) -> Iterator[subprocess.Popen[str]]:
    """A run of another process, whose turn it is until it is killed."""
    words = [sys.executable, "-c", HOLD, str(file)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "mine\n"
        yield process
        process.kill()


def killed(process: subprocess.Popen[str]) -> Callable[[], object]:
    def kill() -> None:
        process.kill()
        process.wait()

    return kill


def test_a_run_waits_for_another_and_reports_for_which_once_a_minute(tmp_path: Path) -> None:
    reports: list[str] = []
    with another_run(tmp_path / "turn") as process:
        clock = Waiting(1.5 * REMIND, killed(process))
        with turn("make bench", reports.append, file=tmp_path / "turn", clock=clock):
            assert process.returncode is not None

    assert len(reports) == 2
    assert all(f"waits for process {process.pid} (make test in " in line for line in reports)


def test_processes_of_the_run_whose_turn_it_is_do_not_wait(tmp_path: Path) -> None:
    with turn("make test", pytest.fail, file=tmp_path / "turn"):
        assert os.environ[TAKEN]
        words = [sys.executable, "-c", HOLD, str(tmp_path / "turn")]
        done = subprocess.run(words, input="\n", capture_output=True, text=True, check=True)
        assert done.stdout == "mine\n"
    assert TAKEN not in os.environ


def test_a_setting_lets_runs_go_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SIDE_BY_SIDE, "1")
    with another_run(tmp_path / "turn"), turn("make bench", pytest.fail, file=tmp_path / "turn"):
        pass


def test_a_turn_can_be_taken_again(tmp_path: Path) -> None:
    for _ in range(2):
        with turn("make test", pytest.fail, file=tmp_path / "turn"):
            pass


class _Item:
    def __init__(self, mark: str) -> None:
        self._mark = mark

    def get_closest_marker(self, name: str) -> str | None:
        return self._mark if name == self._mark else None


def _session(*marks: str, **option: bool) -> Any:
    options = SimpleNamespace(**{"collectonly": False, "setupplan": False, **option})
    return SimpleNamespace(items=[_Item(mark) for mark in marks], config=SimpleNamespace(option=options))


@pytest.mark.parametrize("mark", ON_CLUSTERS)
def test_a_run_with_a_test_on_a_cluster_needs_its_turn(mark: str) -> None:
    assert starts_clusters(_session("unit", mark))
    assert not starts_clusters(_session("unit", "component"))


@pytest.mark.parametrize("option", ["collectonly", "setupplan"])
def test_a_run_that_only_lists_its_tests_does_not_wait(option: str) -> None:
    assert not starts_clusters(_session("e2e", **{option: True}))


def test_a_worker_of_a_run_leaves_the_turn_to_the_run() -> None:
    session = _session("e2e")
    session.config.workerinput = {}
    assert not starts_clusters(session)
