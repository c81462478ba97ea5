"""``make run ONCE=1`` plays the story to its end; a step that does not happen ends it and says which."""

import os
import subprocess
import sys

import pytest

from devcluster.places import CHECKOUT

pytestmark = pytest.mark.e2e


def play(name: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "devcluster.demo", "--name", name, "--once"],
        cwd=CHECKOUT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_story_is_played_to_its_end() -> None:
    played = play("story")
    assert played.returncode == 0, played.stdout + played.stderr
    lines = played.stdout.splitlines()
    for words in ("is scheduled to", "is bound with", "runs after", "sees inside"):
        assert sum(words in line for line in lines) == 7, words
    assert sum("bob-a100-5   waits" in line for line in lines) == 1
    assert any("bob-a100-5   got the GPU" in line for line in lines)
    assert lines[-1] == "The cluster is gone."


def test_a_story_whose_step_does_not_happen_fails_and_says_which() -> None:
    played = play("broken", GPU_BOOKING_STRATEGY="environment")  # containers get no device nodes then
    assert played.returncode != 0
    assert (
        "The step did not happen: the container of bob-a100-1 sees the GPU that was chosen" in played.stderr
    )
    assert "expected:" in played.stderr
    assert "seen:" in played.stderr
    assert "Traceback" not in played.stderr
