"""Sizes and smaller rules of the house that a machine can check (CONTRIBUTING.md)."""

import ast
from pathlib import Path

import pytest

from tests.architecture.checkout import PACKAGES, ROOT, name_of, python_of, tracked, tree_of

FILE_LINES = 500
FUNCTION_LINES = 60
WRITTEN_BY_PEOPLE = (
    *(".py", ".c", ".h", ".go", ".sh", ".js", ".tpl", "Makefile"),
    *(".proto", ".yaml", ".yml", ".toml", ".mod", ".html", ".css", ".sql"),
)
POSITIONAL = 4


def sources() -> list[Path]:
    named = tracked(*WRITTEN_BY_PEOPLE)
    scripts = [path for path in tracked() if not path.suffix and path.read_bytes().startswith(b"#!")]
    return [path for path in {*named, *scripts} if not {"fixtures", "vendor"} & set(path.parts)]


def test_no_file_is_longer_than_five_hundred_lines() -> None:
    long = {name_of(p): n for p in sources() if (n := len(p.read_text().splitlines())) > FILE_LINES}
    assert not long


def test_no_function_is_longer_than_sixty_lines() -> None:
    long = [
        f"{name_of(path)}: {node.name}"
        for path in python_of(*PACKAGES, "docs", "tests")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES
    ]
    assert not long


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
