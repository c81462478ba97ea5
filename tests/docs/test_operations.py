"""The messages that docs/operations.md quotes are the product's own words, what differs each time aside."""

import ast
import re
from collections.abc import Iterator

import pytest

from cluster import names
from tests.architecture.checkout import ROOT, SHIPPED, python_of, tree_of

TEXT = (ROOT / "docs" / "operations.md").read_text()
TABLE = re.compile(r"^\| message(?: of a 503)? \|.*\n\| --- .*\n((?:\|.*\n)+)", re.MULTILINE)
OF_KUBERNETES = frozenset(
    {
        "Insufficient nvidia.com/gpu",
        "connect: connection refused (to port 8880)",
        "requested number of devices unavailable",
    }
)
DIFFERS = re.compile(
    r"\.\.\.|'\.\.\.'|\([^)]*\)?|[.,:;] |[.,:;]$"
    r"|\b(?:[ABMNPX]|PATH|GPUs?|objects?|is|are|\d+|yet|for more than)\b"
)
"""What a document leaves out or writes for a value, and words that agree with a number."""
SHORTEST = 4
"""Letters of a piece that is looked for."""


def quoted() -> Iterator[str]:
    """Every message in a table of messages: several in one cell are divided by semicolons."""
    for table in TABLE.findall(TEXT):
        for line in table.splitlines():
            cell = re.sub(r" \(`[^)]*\)", "", line.split(" | ")[0].removeprefix("| "))
            yield from cell.split("; ")


def pieces(message: str) -> list[str]:
    """What of a message is the same each time."""
    found = DIFFERS.split(message.removeprefix(names.NOT_NOW))
    return [piece for part in found if len(piece := part.strip()) >= SHORTEST]


def said() -> str:
    """All texts in the code that is shipped, docstrings aside."""
    texts: list[str] = []
    for path in python_of(*SHIPPED):
        tree = tree_of(path)
        documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts += (
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents
        )
    return "\n".join(texts)


SAID = said()


def test_the_tables_of_messages_are_found() -> None:
    assert len(TABLE.findall(TEXT)) == 5
    assert set(quoted()) > OF_KUBERNETES


def test_the_quoted_beginning_of_most_503_messages_is_the_products() -> None:
    (beginning,) = re.findall(r'Most messages of a 503 begin with "([^"]+)"', TEXT)
    assert f"{beginning} " in SAID


@pytest.mark.parametrize("message", sorted(set(quoted()) - OF_KUBERNETES))
def test_quoted_messages_are_the_products(message: str) -> None:
    assert pieces(message)
    assert [piece for piece in pieces(message) if piece not in SAID] == []
