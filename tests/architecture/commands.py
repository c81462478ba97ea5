"""The commands that documents give people to type: in blocks, in fences of a shell, and in sentences."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.architecture.checkout import MANUAL, ROOT, name_of

DOCUMENTS: Final = tuple(
    name_of(path)
    for path in (*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md")), *sorted(MANUAL.glob("*.md")))
    if path.name != "CHANGELOG.md"
)
LIFECYCLE: Final = {
    "Saving and restoring": "backup",
    "Upgrading": "upgrading",
    "Rolling back": "upgrading",
    "Removing it": "removing",
}
"""Section of docs/operations that a release goes through (tests/long/installed/test_lifecycle.py) -> page."""

PLAYED: Final = ("docs/getting-started.md", "docs/migration-from-nvidia.md", "docs/operations/maia.md")
"""Whose commands make sense in their order alone: tests/long/installed/test_first_steps.py types them, and
tests/long/charts/test_changing_over_from_maia.py those of the last."""

_FENCE: Final = re.compile(r"^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
_SHELLS: Final = {"bash", "console", "sh", "shell"}
_BLOCK: Final = re.compile(r"(?:^(?: {4,}\S.*)?\n)+", re.MULTILINE)
_SPAN: Final = re.compile(r"`([^`]+)`")
_COMMAND: Final = re.compile(
    r"(?:make|curl|kubectl|helm|python|\.venv/bin/python|export|pip|uv|apt|apt-get|nvidia-modprobe)(?:\s|$)"
)
_ASSIGNMENT: Final = re.compile(r"[A-Z_]+=")


def blocks_in(text: str) -> Iterator[list[str]]:
    """Lines of blocks that are commands, one command each, without the comments of people."""
    for fence in _FENCE.finditer(text):
        if fence["language"] in _SHELLS:
            yield _lines(fence["body"])
    for block in _BLOCK.finditer(without_fences(text)):
        lines = _lines(block[0])
        if any(map(is_command, lines)):
            yield lines


def spoken_in(text: str) -> Iterator[str]:
    """Commands within sentences and tables."""
    prose = _BLOCK.sub("\n", without_fences(text))
    for span in _SPAN.findall(prose):
        line = " ".join(span.split())
        if _COMMAND.match(line) and " " in line:
            yield line


def all_in(path: Path) -> list[str]:
    """Every command of a document."""
    text = path.read_text()
    return [*(line for lines in blocks_in(text) for line in lines), *spoken_in(text)]


def under(path: Path, heading: str) -> list[str]:
    """Every command of one section of a document, those of its blocks first."""
    found = re.search(
        rf"^##? {re.escape(heading)}\n(.*?)(?=^## |\Z)", path.read_text(), re.DOTALL | re.MULTILINE
    )
    assert found, f"{path.name} has no section {heading!r}"
    text = found[1]
    return [*(line for lines in blocks_in(text) for line in lines), *spoken_in(text)]


def lifecycle(heading: str) -> list[str]:
    """Every command of a section that a release goes through."""
    return under(MANUAL / f"{LIFECYCLE[heading]}.md", heading)


def is_command(line: str) -> bool:
    """Whether a line is one for a shell."""
    return bool(_COMMAND.match(line) or _ASSIGNMENT.match(line))


def without_fences(text: str) -> str:
    """The text without its fenced blocks."""
    return _FENCE.sub("", text)


def goals_of(command: str) -> list[str]:
    """The goals of a ``make``."""
    words = command.split()[1:] if command.startswith("make ") else []
    return [word for word in words if "=" not in word and not word.startswith("-")]


def _lines(block: str) -> list[str]:
    """Lines without comments; one that ends in a backslash goes on."""
    joined = re.sub(r"\s*\\\n\s*", " ", block)
    stripped = (re.sub(r"\s+#\s.*$", "", line).strip() for line in joined.splitlines())
    return [line for line in stripped if line and not line.startswith("#")]
