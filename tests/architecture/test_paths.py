"""Files of this checkout that code names are there: a move leaves no old name behind."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT, name_of, tracked, tree_of

TOPS = {"CHECKOUT", "ROOT"}
MADE = {".devcluster", ".venv", "dist"}
"""Folders of what is made here."""


def named(tree: ast.AST) -> Iterator[Path]:
    """Every path of the form ``ROOT / "a" / "b"``, without longer ones' beginnings."""
    beginnings = {id(node.left) for node in ast.walk(tree) if isinstance(node, ast.BinOp)}
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and id(node) not in beginnings and (parts := _parts(node)):
            yield Path(*parts)


def _parts(node: ast.expr) -> list[str]:
    words: list[str] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        if not (isinstance(node.right, ast.Constant) and isinstance(node.right.value, str)):
            return []
        words.insert(0, node.right.value)
        node = node.left
    return words if isinstance(node, ast.Name) and node.id in TOPS else []


@pytest.mark.parametrize(
    ("code", "paths"),
    [
        ('x = ROOT / "a" / "b.py"', ["a/b.py"]),
        ('(CHECKOUT / "a" / "b").read_text()', ["a/b"]),
        ('ROOT / "a" / name', []),
        ('elsewhere / "a"', []),
    ],
)
def test_a_path_is_put_together_folder_by_folder(code: str, paths: list[str]) -> None:
    assert [str(path) for path in named(ast.parse(code))] == paths


def test_paths_of_this_checkout_named_in_code_exist() -> None:
    files = [path for path in tracked(".py") if path.is_relative_to(ROOT)]
    mentioned = {(name_of(file), path) for file in files for path in named(tree_of(file))}
    assert mentioned
    missing = {
        f"{file}: {path}"
        for file, path in mentioned
        if path.parts[0] not in MADE and not (ROOT / path).exists()
    }
    assert missing == set()
