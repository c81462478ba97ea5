"""A test that takes longer than it states is reported."""

import subprocess
import sys
from pathlib import Path

from tests.running.budgets import over

PROGRAM = """
import pytest

@pytest.mark.budget(-1)
def test_slow(): pass

@pytest.mark.budget(60)
def test_quick(): pass
"""


def test_only_a_test_that_took_longer_than_it_states_is_reported() -> None:
    took = {"quick": 3.0, "slow": 31.0, "states nothing": 500.0}
    stated = {"quick": 20.0, "slow": 20.0, "not played": 5.0}
    assert over(took, stated) == ["over its budget: slow took 31 s of 20 s (docs/testing.md)"]


def test_exceeded_budgets_are_reported_at_the_end_of_a_run_which_stays_green(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(PROGRAM)
    options = ["-p", "tests.running.budgets", "-p", "no:randomly", f"--rootdir={tmp_path}"]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    (reported,) = (line for line in done.stdout.splitlines() if "over its budget" in line)
    assert "test_slow took 0 s" in reported
