"""How long functions are, in every language of this checkout."""

import ast
import re
from collections.abc import Callable, Iterator

Length = tuple[str, int]
"""Name of a function and its lines, from the one that opens it to the one that ends it."""

_AT_THE_MARGIN = re.compile(r"^(?P<name>[A-Za-z_][^{;]*\()")
_TEMPLATE = re.compile(r"^\{\{-? define \"(?P<name>[^\"]+)\"")
_GOAL = re.compile(r"^(?P<name>[a-z][\w-]*):(?!=)")


def in_python(tree: ast.Module) -> Iterator[Length]:
    """Functions and methods, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            yield node.name, node.end_lineno - node.lineno + 1


def in_braces(text: str) -> Iterator[Length]:
    """Functions of C, Go and the shell: from a line at the margin to the brace that ends it."""
    name, start, opened = "", 0, False
    for number, line in enumerate(text.splitlines(), start=1):
        named = _AT_THE_MARGIN.match(line)
        if named and not opened:
            name, start = named["name"].rstrip("("), number
        opened = opened or bool(name and line.endswith("{"))
        if opened and line.startswith("}"):
            yield name, number - start + 1
        if line.startswith("}") or (not opened and line.endswith(";")):
            name, opened = "", False


def in_templates(text: str) -> Iterator[Length]:
    """Named templates of a chart."""
    yield from _blocks(text, _TEMPLATE, lambda line: line.startswith(("{{- end }}", "{{ end }}")))


def in_makefile(text: str) -> Iterator[Length]:
    """Goals with their recipes."""
    yield from _blocks(text, _GOAL, lambda line: not line.strip())


def _blocks(text: str, opening: re.Pattern[str], ends: Callable[[str], bool]) -> Iterator[Length]:
    name, start = "", 0
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        found = opening.match(line)
        if found and not name:
            name, start = found["name"].strip(), number
        elif name and ends(line):
            yield name, number - start + 1
            name = ""
