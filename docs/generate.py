"""Writes the tables of docs/operations.md anew from the code: ``make docs``.

A table stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``. Values come from the code as it
runs, sentences from its docstrings. tests/architecture fails where the file is not what this would write.
"""

import ast
import enum
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import msgspec

import deviceplugin.settings
import extender.settings
from cluster import names
from cluster.runtime.metrics import NAMESPACE
from cluster.runtime.settings import PREFIX
from deviceplugin.nvml import xids

ROOT: Final = Path(__file__).resolve().parents[1]
DOCUMENT: Final = ROOT / "docs" / "operations.md"
_MARKED: Final = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_METRICS: Final = {"Counter": "counter", "Gauge": "gauge", "Histogram": "histogram", "measured": "gauge"}

Row = tuple[str, ...]


class UnknownTableError(ValueError):
    """A marker names a table that there is not."""


def render(text: str) -> str:
    """The document with every table made anew.

    Raises:
        UnknownTableError: with the names that there are.
    """

    def replaced(found: re.Match[str]) -> str:
        opening, name, closing = found.groups()
        if name not in TABLES:
            raise UnknownTableError(f"There is no table {name!r}; there are {', '.join(TABLES)}.")
        return f"{opening}{TABLES[name]()}{closing}"

    return _MARKED.sub(replaced, text)


def docstrings(path: Path, class_name: str | None = None) -> dict[str, str]:
    """Name -> the sentence below its assignment, of a module's or a class's names that have one."""
    body: list[ast.stmt] = ast.parse(path.read_text()).body
    if class_name is not None:
        body = next(node.body for node in body if isinstance(node, ast.ClassDef) and node.name == class_name)
    found = {}
    for assignment, following in itertools.pairwise(body):
        if (
            isinstance(assignment, ast.AnnAssign)
            and isinstance(assignment.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
        ):
            found[assignment.target.id] = str(following.value.value)
    return found


def settings_table(kind: type[msgspec.Struct], module: Path) -> str:
    """Variable, default and meaning of every field."""
    meanings = docstrings(module, kind.__name__)
    return _table(
        ("variable", "default", "meaning"),
        (
            (
                f"`{PREFIX}{field.name.upper()}`",
                _default(field),
                _prose(meanings.get(field.name, "")) + _choices(field.type),
            )
            for field in msgspec.structs.fields(kind)
        ),
    )


def metrics_table(*sources: Path) -> str:
    """Name, kind, labels and meaning of every metric that these files make, by name."""
    rows = (row for source in sources for path in sorted(_python(source)) for row in _metrics_in(path))
    return _table(("metric", "kind", "labels", "meaning"), sorted(rows))


def xid_table() -> str:
    """Every XID whose meaning is known, and what it does to a GPU."""
    kinds = (
        (xids.CRITICAL, "unhealthy"),
        (xids.APPLICATION, "stays healthy: the error of one program"),
        (xids.ANNOUNCEMENTS, "stays healthy, unless the driver asks for a recovery action"),
    )
    rows = sorted((xid, meaning, effect) for table, effect in kinds for xid, meaning in table.items())
    return _table(
        ("XID", "meaning", "the GPU"),
        [*((str(xid), meaning, effect) for xid, meaning, effect in rows), ("any other", "", "unhealthy")],
    )


def names_table() -> str:
    """Every key and name of ours that stands in the cluster."""
    meanings = docstrings(ROOT / "cluster" / "names.py")
    return _table(
        ("name", "meaning"),
        ((f"`{getattr(names, name)}`", _prose(text)) for name, text in meanings.items()),
    )


def _metrics_in(path: Path) -> Iterator[Row]:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        kind = _METRICS.get(node.func.id)
        texts = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
        if kind is None or len(texts) < 2:  # noqa: PLR2004 - a name and a sentence
            continue
        name, meaning = map(str, texts[:2])
        bare = node.func.id == "measured" or any(word.arg == "namespace" for word in node.keywords)
        name = f"{NAMESPACE}_{name}" if bare else name
        ending = "_total" if kind == "counter" and not name.endswith("_total") else ""
        labels = [
            str(element.value)
            for argument in node.args
            if isinstance(argument, ast.List | ast.Tuple)
            for element in argument.elts
            if isinstance(element, ast.Constant)
        ]
        yield f"`{name}{ending}`", kind, ", ".join(f"`{label}`" for label in labels), _prose(meaning)


def _python(source: Path) -> Iterable[Path]:
    return [source] if source.is_file() else source.rglob("*.py")


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "(required)"
    value = field.default
    if value is None:
        return ""
    return f"`{value.value if isinstance(value, enum.Enum) else value}`"


def _choices(kind: Any) -> str:
    if get_origin(kind) is Literal:
        values = [str(value) for value in get_args(kind)]
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        values = [str(member.value) for member in kind]
    else:
        return ""
    return f" One of {', '.join(f'`{value}`' for value in values)}."


def _prose(text: str) -> str:
    """A docstring as Markdown on one line; names of constants become what they stand for."""

    def quoted(found: re.Match[str]) -> str:
        word = found[1].removeprefix("names.")
        return f"`{getattr(names, word, found[1]) if word.isupper() else found[1]}`"

    return re.sub(r"``([^`]+)``", quoted, " ".join(text.split())).replace("|", r"\|")


def _table(header: Row, rows: Iterable[Row]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


TABLES: Final[dict[str, Callable[[], str]]] = {
    "settings-node-agent": lambda: settings_table(
        deviceplugin.settings.Settings, ROOT / "deviceplugin" / "settings.py"
    ),
    "settings-extender": lambda: settings_table(
        extender.settings.Settings, ROOT / "extender" / "settings.py"
    ),
    "metrics-node-agent": lambda: metrics_table(ROOT / "deviceplugin"),
    "metrics-extender": lambda: metrics_table(ROOT / "extender", ROOT / "cluster" / "kube" / "events.py"),
    "xids": xid_table,
    "names": names_table,
}
"""Name in a marker -> its table."""


def main() -> int:
    """Write the document; the exit code."""
    text = DOCUMENT.read_text()
    fresh = render(text)
    if fresh != text:
        DOCUMENT.write_text(fresh)
    sys.stdout.write(f"{DOCUMENT.relative_to(ROOT)} {'has changed' if fresh != text else 'is current'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
