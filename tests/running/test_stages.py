"""The gate's stages: in order, ended by the first red one or by their time, nothing left alive."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.fake.clock import eventually
from cluster.runtime.clock import SystemClock
from tests.running import gate
from tests.running.stages import Outcome, Stage, play, run

QUICK, NEXT = Stage("quick", 60), Stage("next", 60)


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def played(*programs: str) -> tuple[list[Outcome], list[str]]:
    """Stages that run these programs."""
    stages = [Stage(f"stage-{number}", 60) for number in range(len(programs))]
    said: list[str] = []
    outcomes = play(
        stages, lambda stage: python(programs[stages.index(stage)]), clock=SystemClock(), say=said.append
    )
    return outcomes, said


def test_stages_run_in_their_order_and_all_of_them_where_all_are_green(tmp_path: Path) -> None:
    log = tmp_path / "log"
    outcomes, said = played(*(f"open({str(log)!r}, 'a').write('{n}')" for n in range(3)))
    assert log.read_text() == "012"
    assert [outcome.code for outcome in outcomes] == [0, 0, 0]
    assert [line.partition(" (")[0] for line in said[::2]] == [
        "stage stage-0",
        "stage stage-1",
        "stage stage-2",
    ]


def test_the_first_red_stage_ends_the_run_and_is_named_in_its_last_line() -> None:
    outcomes, said = played("pass", "raise SystemExit(3)", "pass")
    assert [outcome.code for outcome in outcomes] == [0, 3]
    assert said[-1].startswith("RED: stage-1 failed after ")
    assert said[-1].endswith("with exit status 3")
    assert gate.summary(outcomes) == said[-1]


def test_a_stage_whose_time_is_up_is_ended_with_all_its_processes(tmp_path: Path) -> None:
    log = tmp_path / "pid"
    stubborn = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)"
    program = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {stubborn!r}])\n"
        f"open({str(log)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(600)"
    )
    assert run(python(program), 2.0) is None
    child = int(log.read_text())
    eventually(lambda: not _lives(child))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["terminated", "interrupted"])
def test_a_run_that_is_ended_ends_its_stage_first(tmp_path: Path, number: signal.Signals) -> None:
    log = tmp_path / "told"
    stage = (
        "import os, time\n"
        f"log = {str(log)!r}\n"
        "open(log, 'w').write(f'{os.getpid()}')\n"
        "try:\n    time.sleep(600)\n"
        "finally:\n    open(log, 'a').write(' tidied up')"
    )
    text = f"import sys; from tests.running.stages import run; run([sys.executable, '-c', {stage!r}], 600)"
    with subprocess.Popen(python(text), stderr=subprocess.DEVNULL) as running:
        eventually(lambda: log.exists() and log.read_text(), deadline=60)
        running.send_signal(number)
        assert running.wait(60) != 0
    child, _, rest = log.read_text().partition(" ")
    assert rest == "tidied up"
    assert not _lives(int(child))


def test_a_stage_that_was_ended_says_so() -> None:
    told = str(Outcome(Stage("e2e", 420), None, 421.0))
    assert told == "RED: e2e did not end within its 420 s and was ended"


def test_a_green_run_says_how_long_each_stage_took() -> None:
    outcomes = [Outcome(QUICK, 0, 12.3), Outcome(NEXT, 0, 100.0)]
    assert gate.summary(outcomes) == "GREEN in 112 s: quick 12 s, next 100 s"


def test_a_green_run_that_was_too_slow_for_a_gate_says_so() -> None:
    outcomes = [Outcome(QUICK, 0, 700.0), Outcome(NEXT, 0, 100.0)]
    assert "more than the 720 s that a gate may take" in gate.summary(outcomes)


def test_every_stage_is_a_goal_of_the_makefile() -> None:
    for stage in gate.STAGES:
        done = subprocess.run(
            [*gate.command(stage), "--dry-run"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def _lives(pid: int) -> bool:
    """Whether a process does anything yet; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
