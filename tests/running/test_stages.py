"""The gate's stages: in order, ended by the first red one or by their time, nothing left alive."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.fake.clock import eventually
from cluster.process.clock import SystemClock
from devcluster.paths import CHECKOUT
from devcluster.procstat import lives
from tests.running import gate
from tests.running.outcome import Failure
from tests.running.stages import Outcome, Stage, log_of, play, run
from tests.running.summary import LINES
from tests.running.verdict import Verdict

QUICK, NEXT = Stage("quick", 60), Stage("next", 60)


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def played(*programs: str) -> tuple[list[Outcome], list[str]]:
    """Stages that run these programs."""
    stages = [Stage(f"stage-{number}", 60) for number in range(len(programs))]
    lines: list[str] = []
    outcomes = play(
        stages, lambda stage: python(programs[stages.index(stage)]), clock=SystemClock(), say=lines.append
    )
    return outcomes, lines


def test_all_stages_run_in_their_order_where_all_are_green(tmp_path: Path) -> None:
    log = tmp_path / "log"
    outcomes, lines = played(*(f"open({str(log)!r}, 'a').write('{n}')" for n in range(3)))
    assert log.read_text() == "012"
    assert [outcome.code for outcome in outcomes] == [0, 0, 0]
    assert [line.partition(" (")[0] for line in lines[::2]] == [
        "stage stage-0",
        "stage stage-1",
        "stage stage-2",
    ]


def test_the_first_red_stage_ends_the_run_and_is_named_in_its_last_line() -> None:
    outcomes, lines = played("pass", "raise SystemExit(3)", "pass")
    assert [outcome.code for outcome in outcomes] == [0, 3]
    assert lines[-1].startswith("RED: stage-1 failed after ")
    assert lines[-1].endswith("with exit status 3")
    assert gate.summary(outcomes) == lines[-1]


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
    eventually(lambda: not lives(child))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["terminated", "interrupted"])
def test_a_run_that_is_ended_ends_its_stage_first(tmp_path: Path, number: signal.Signals) -> None:
    log = tmp_path / "log"
    stage = (
        "import os, time\n"
        f"log = {str(log)!r}\n"
        "open(log, 'w').write(f'{os.getpid()}')\n"
        "try:\n    time.sleep(600)\n"
        "finally:\n    open(log, 'a').write(' tidied up')"
    )
    text = f"import sys; from tests.running.stages import run; run([sys.executable, '-c', {stage!r}], 600)"
    # A shell that plays this in the background ignores SIGINT, and would hand that down.
    words = ["env", "--default-signal=INT", *python(text)]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as running:
        eventually(lambda: log.exists() and log.read_text(), deadline=60)
        running.send_signal(number)
        assert running.wait(60) != 0
    child, _, rest = log.read_text().partition(" ")
    assert rest == "tidied up"
    assert not lives(int(child))


def test_a_stage_of_a_run_that_was_killed_is_terminated(tmp_path: Path) -> None:
    log = tmp_path / "log"
    stage = f"import os, time; open({str(log)!r}, 'w').write(f'{{os.getpid()}}'); time.sleep(600)"
    text = f"import sys; from tests.running.stages import run; run([sys.executable, '-c', {stage!r}], 600)"
    with subprocess.Popen(python(text)) as running:
        eventually(lambda: log.exists() and log.read_text(), deadline=60)
        running.kill()
    eventually(lambda: not lives(int(log.read_text())))


@pytest.mark.parametrize(
    "goal", ["run", "test", "test-long", "controlplane", "e2e", "prove", "chaos", "bench"]
)
def test_a_program_that_starts_clusters_ends_with_make_however_make_ends(goal: str, tmp_path: Path) -> None:
    program, log = tmp_path / "python", tmp_path / "log"
    program.write_text(f"#!/bin/sh\necho $$ > {log}.new && mv {log}.new {log}\nexec sleep 600\n")
    program.chmod(0o700)
    words = ["make", "--assume-old=binaries", f"BIN={tmp_path}", goal]
    with subprocess.Popen(words, cwd=CHECKOUT, start_new_session=True) as make:
        eventually(log.exists, deadline=60)
        make.kill()
    eventually(lambda: not lives(int(log.read_text())), deadline=60)


def test_a_stage_that_exceeded_its_time_is_reported_with_it() -> None:
    text = str(Outcome(Stage("e2e", 420), None, 421.0))
    assert text == "RED: e2e did not end within its 420 s and was ended"


def test_a_green_run_reports_how_long_each_stage_took() -> None:
    outcomes = [Outcome(QUICK, 0, 12.3), Outcome(NEXT, 0, 100.0)]
    assert gate.summary(outcomes) == "GREEN in 112 s: quick 12 s, next 100 s"


def test_a_green_run_reports_that_it_was_too_slow_for_a_gate() -> None:
    outcomes = [Outcome(QUICK, 0, 700.0), Outcome(NEXT, 0, 100.0)]
    assert "more than the 720 s that a gate may take" in gate.summary(outcomes)


def test_the_output_of_a_stage_is_shown_and_logged_at_the_width_of_the_report(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = "import os, sys; print(os.environ['COLUMNS'], flush=True); print('wrong', file=sys.stderr)"
    stages = [Stage("first", 60), Stage("second", 60)]
    play(stages, lambda _: python(program), clock=SystemClock(), say=lambda _: None, logs=tmp_path / "logs")
    assert [log_of(stage, tmp_path / "logs").read_text() for stage in stages] == ["200\nwrong\n"] * 2
    assert capfd.readouterr().out == "200\nwrong\n" * 2


def test_a_process_that_outlives_its_stage_delays_nothing(tmp_path: Path) -> None:
    log = tmp_path / "pid"
    program = (
        "import subprocess, sys\n"
        "sleeps = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "child = subprocess.Popen(sleeps, start_new_session=True)\n"
        f"open({str(log)!r}, 'w').write(str(child.pid))\nprint('all')"
    )
    assert run(python(program), 60, log=tmp_path / "log", grace=0.1) == 0
    os.kill(int(log.read_text()), signal.SIGKILL)
    assert (tmp_path / "log").read_text() == "all\n"


UNIT = Stage("unit", 600)
OUTPUT = [
    *("=================================== FAILURES ===================================", "__ test_a __", ""),
    *(f"    line {number}" for number in range(200)),
    "E       assert 1 == 2",
    "tests/x.py:3: AssertionError",
    "seeds: --randomly-seed=7",
    "FAILED tests/x.py::test_a - assert 1 == 2",
    "FAILED tests/x.py::test_b - assert 0",
    "2 failed in 1.00s",
]


def test_a_red_stage_ends_with_enough_to_understand_it_and_names_the_test() -> None:
    red = Outcome(UNIT, 2, 12.0)
    lines, why = gate.closing(red, OUTPUT, None)
    assert len(lines) < LINES
    shown = "\n".join(lines)
    for words in ("E       assert 1 == 2", "FAILED tests/x.py::test_b", "--randomly-seed=7", "2 failed"):
        assert words in shown
    assert gate.summary([red], why) == "RED: unit failed after 12 s with exit status 2: tests/x.py::test_a"


def test_a_law_broken_in_any_stage_is_named_in_the_last_line() -> None:
    law = "FAILED tests/x.py::test_c - tests.laws.broken.LawBrokenError: Law L3 is broken: bob-1 was spared"
    red = Outcome(UNIT, 2, 12.0)
    _, why = gate.closing(red, [*OUTPUT, law], None)
    assert gate.summary([red], why) == "RED: law L3 broken in tests/x.py::test_c"


def test_a_red_stage_of_whole_clusters_ends_with_its_verdict_and_repeats_no_output() -> None:
    red = Outcome(Stage("e2e", 600), 2, 12.0)
    lines, why = gate.closing(red, OUTPUT, Verdict(red="law L1 broken in tests/e2e/test_x.py::test_a"))
    assert lines == []
    assert gate.summary([red], why) == "RED: law L1 broken in tests/e2e/test_x.py::test_a"
    lines, why = gate.closing(red, OUTPUT, Verdict(red="tests/e2e/test_x.py::test_a failed twice: late"))
    assert gate.summary([red], why).endswith("exit status 2: tests/e2e/test_x.py::test_a failed twice: late")


def test_a_stage_of_whole_clusters_without_a_verdict_shows_its_last_output() -> None:
    lines, why = gate.closing(Outcome(Stage("e2e", 600), None, 600.0), ["here", "it stood still"], None)
    assert lines[-1] == "  it stood still"
    assert why == ""


def test_a_green_run_ends_with_what_flaked() -> None:
    failure = Failure("tests/e2e/test_x.py::test_a", "call", "AssertionError: late")
    lines, why = gate.closing(Outcome(Stage("e2e", 600), 0, 60.0), ["5 passed"], Verdict(flaked=(failure,)))
    assert lines == ["FLAKED: tests/e2e/test_x.py::test_a: AssertionError: late"]
    assert why == ""


def test_every_stage_is_a_goal_of_the_makefile() -> None:
    for stage in gate.STAGES:
        done = subprocess.run(
            [*gate.command(stage), "--dry-run"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
