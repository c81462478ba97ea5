"""docs/examples/train.py as a process: it continues where it stopped, and its exit code says if it is done.

That it sees a notice and speaks to the API server is played on a whole cluster (e2e/test_example_job.py).
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster.paths import CHECKOUT

PROGRAM = CHECKOUT / "docs" / "examples" / "train.py"
UNFINISHED = 75


@contextmanager
def training(state: Path, *, steps: int) -> Iterator[subprocess.Popen[str]]:
    settings = {"STATE_FILE": str(state), "STEPS": str(steps), "STEP_SECONDS": "0.001"}
    command = [sys.executable, str(PROGRAM)]
    with subprocess.Popen(command, env={**os.environ, **settings}, stdout=subprocess.PIPE, text=True) as run:
        try:
            yield run
        finally:
            run.kill()


def next_line(run: subprocess.Popen[str]) -> str:
    assert run.stdout is not None
    return run.stdout.readline().strip()


def step(state: Path) -> int:
    found: int = json.loads(state.read_text())["step"]
    return found


def test_training_is_done_after_its_steps_and_has_nothing_left_to_do_then(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    for begins in (0, 5):
        with training(state, steps=5) as run:
            assert next_line(run) == f"begins at step {begins}"
            assert next_line(run) == "is done after 5 steps"
            assert run.wait(60) == 0
    assert step(state) == 5


def test_on_sigterm_training_saves_reports_unfinished_and_later_continues_from_there(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    with training(state, steps=10**9) as run:
        assert next_line(run) == "begins at step 0"
        run.send_signal(signal.SIGTERM)
        leaves = next_line(run)
        assert run.wait(60) == UNFINISHED
    assert leaves == f"leaves at step {step(state)}"
    with training(state, steps=10**9) as run:
        assert next_line(run) == f"begins at step {step(state)}"


def test_a_half_written_checkpoint_is_ignored(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text('{"step": 7}')
    state.with_suffix(".new").write_text('{"st')
    with training(state, steps=8) as run:
        assert next_line(run) == "begins at step 7"
        assert run.wait(60) == 0
    assert step(state) == 8
