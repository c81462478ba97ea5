"""The decisions of docs/adr: number, title, state and date of each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from docs.tables.markdown import ROOT, table

FOLDER: Final = ROOT / "docs" / "adr"
_HEAD: Final = re.compile(
    r"# (?P<number>\d+)\. (?P<title>[^\n]+)\n\n(?P<state>Proposed|Accepted|Superseded by [^\n]+?), "
    r"(?P<date>\d{4}-\d\d-\d\d)\.\n\n"
)


class HeadError(ValueError):
    """A decision does not begin as decisions must."""


@dataclass(frozen=True, order=True)
class Decision:
    """One decision."""

    number: int
    title: str
    state: str
    date: str
    file: str


def decisions(folder: Path = FOLDER) -> Iterator[Decision]:
    """All decisions, sorted by their files' names.

    Raises:
        HeadError: a file has no number and title, or no state and date below them.
    """
    for path in sorted(folder.glob("[0-9]*.md")):
        head = _HEAD.match(path.read_text())
        if head is None:
            raise HeadError(f"{path.name} must begin with '# N. Title', and below it 'Accepted, YYYY-MM-DD.'")
        yield Decision(int(head["number"]), head["title"], head["state"], head["date"], path.name)


def decisions_table() -> str:
    """The index of decisions."""
    rows = ((f"[{d.number}]({d.file})", d.title, d.state, d.date) for d in sorted(decisions()))
    return table(("ADR", "decision", "state", "date"), rows)
