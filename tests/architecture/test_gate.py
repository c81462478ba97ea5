"""The gate stays small: tests/e2e has few tests, each with a budget."""

import ast
import subprocess
import sys

from tests.architecture.checkout import ROOT, tree_of

AT_MOST = 15
SECONDS = 180.0


def budgets() -> dict[str, float | None]:
    """Test of tests/e2e -> the seconds of its ``pytest.mark.budget``; None where it has none."""
    return {
        f"{path.name}::{node.name}": _budget(node)
        for path in sorted((ROOT / "tests/e2e").rglob("test_*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def _budget(test: ast.FunctionDef) -> float | None:
    for decorator in test.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.budget":
            (seconds,) = decorator.args
            return float(ast.literal_eval(seconds))
    return None


def test_the_gate_has_at_most_fifteen_tests_and_180_seconds_on_whole_clusters() -> None:
    stated = budgets()
    assert stated
    assert len(stated) <= AT_MOST, "a new test displaces an old one (docs/testing.md)"
    assert not [test for test, seconds in stated.items() if seconds is None]
    assert sum(seconds or 0 for seconds in stated.values()) <= SECONDS


def test_every_test_on_a_whole_cluster_finds_its_fixtures() -> None:
    """They are played seldom; that one cannot even begin is to be known at once."""
    words = ["-q", "-p", "no:randomly", "--setup-plan", "tests/long", "tests/e2e"]
    command = [sys.executable, "-m", "pytest", *words]
    planned = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert planned.returncode == 0, planned.stdout[-5_000:]
