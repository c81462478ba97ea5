"""Smaller rules of the house that a machine can check (CONTRIBUTING.md)."""

import ast
from pathlib import Path

import pytest

from tests.architecture.checkout import PACKAGES, ROOT, name_of, python_of, tree_of

POSITIONAL = 4


def test_functions_take_at_most_four_positional_arguments() -> None:
    wide = [
        f"{name_of(path)}:{node.name}"
        for path in python_of(*PACKAGES)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and len([a for a in node.args.posonlyargs + node.args.args if a.arg not in {"self", "cls"}])
        > POSITIONAL
    ]
    assert not wide


@pytest.mark.parametrize("lock", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda path: path.name)
def test_a_lock_pins_hashes_and_names_no_address(lock: Path) -> None:
    text = lock.read_text()
    pins = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert "://" not in text
    assert "--index" not in text
    assert pins
    assert all("==" in pin and pin.endswith("\\") for pin in pins)
    assert text.count("--hash=sha256:") >= len(pins)


def test_every_thread_of_the_extender_continues_after_a_failure() -> None:
    """A process that binds pods has no thread but those that ``go_on`` makes of ``Loops``."""
    made = {
        f"{name_of(path)}:{function.name}"
        for path in python_of("extender")
        for function in ast.walk(tree_of(path))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in {"thread", "Thread"}
    }
    assert made == {"extender/__main__.py:go_on"}
