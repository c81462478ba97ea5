"""The parts of docs/performance.md that are made from bench/: machine, rows, and how filter grows."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from devcluster.paths import CHECKOUT
from tests.bench import growth
from tests.bench.rows import Kind, Row
from tests.bench.table import render

DOCUMENT: Final = CHECKOUT / "docs" / "performance.md"
CHART: Final = "images/filter-growth.svg"
_MARKED: Final = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_results(
    text: str, *, kinds: Mapping[str, Kind], rows: Iterable[Row], machine: Mapping[str, str]
) -> str:
    """The document with the machine and the rows of a run."""
    known = list(rows)
    made = {
        "machine": "".join(f"- {fact}: {value}\n" for fact, value in machine.items()),
        "rows": render(kinds, known) + "\n",
        "growth": growth.table(known),
    }
    return _MARKED.sub(lambda found: f"{found[1]}{made[found[2]]}{found[3]}", text)


def write(
    *, kinds: Mapping[str, Kind], rows: Iterable[Row], machine: Mapping[str, str], path: Path = DOCUMENT
) -> None:
    """Bring the document and its chart up to date."""
    known = list(rows)
    path.write_text(with_results(path.read_text(), kinds=kinds, rows=known, machine=machine))
    (path.parent / CHART).write_text(growth.drawn(known))
