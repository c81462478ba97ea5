"""No file has more than 500 lines, and no function of Python more than 60."""

import ast
from pathlib import Path

from tests.architecture.checkout import name_of, python_of, tracked, tree_of

FILE_LINES = 500
FUNCTION_LINES = 60
WRITTEN_BY_PEOPLE = (
    *(".py", ".c", ".h", ".go", ".sh", ".js", ".tpl", "Makefile"),
    *(".proto", ".yaml", ".yml", ".toml", ".mod", ".html", ".css", ".sql"),
)


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
        for path in python_of(
            "booking", "cluster", "demo", "devcluster", "deviceplugin", "docs", "extender", "tests"
        )
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES
    ]
    assert not long
