"""Tables and texts in Markdown, and the code's own docstrings and messages."""

import ast
import itertools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from cluster import names

ROOT: Final = Path(__file__).resolve().parents[2]
Row = tuple[str, ...]


def table(header: Row, rows: Iterable[Row]) -> str:
    """A table with one line per row."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def code(text: str) -> str:
    """A text as code; empty for an empty text."""
    return f"`{text}`".replace("|", r"\|") if text else ""


def prose(text: str) -> str:
    """A docstring on one line; names of constants are replaced by their values."""

    def quoted(found: re.Match[str]) -> str:
        word = found[1].removeprefix("names.")
        return f"`{getattr(names, word, found[1]) if word.isupper() else found[1]}`"

    return re.sub(r"``([^`]+)``", quoted, " ".join(text.split())).replace("|", r"\|")


def docstrings(path: Path, class_name: str | None = None) -> dict[str, str]:
    """Name -> the docstring below its assignment, for all documented names of a module or class."""
    body: list[ast.stmt] = ast.parse(path.read_text()).body
    if class_name is not None:
        body = next(node.body for node in body if isinstance(node, ast.ClassDef) and node.name == class_name)
    found = {}
    for assignment, following in itertools.pairwise(body):
        target = _target(assignment)
        if (
            target is not None
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
        ):
            found[target] = str(following.value.value)
    return found


def _target(statement: ast.stmt) -> str | None:
    """The name that an annotated assignment, or a member of an enumeration, assigns to."""
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case _:
            return None


def template(node: ast.expr, known: Mapping[str, ast.expr] | None = None) -> str:
    """A message with "…" in place of the values that are known only at run time.

    known: the values assigned to names nearby; a text among them is read, too.
    """
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.Constant():
            return ""
        case ast.JoinedStr(values=parts):
            return re.sub("…+", "…", "".join(template(part, known) for part in parts))
        case ast.FormattedValue(value=inner):
            return template(inner, known)
        case ast.Name(id=name) if known and isinstance(known.get(name), ast.Constant | ast.JoinedStr):
            return template(known[name], {})
        case _:
            return "…"
