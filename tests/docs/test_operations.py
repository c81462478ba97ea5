"""The messages that docs/operations quotes are the product's own words, what differs each time aside."""

import ast
import re
from collections.abc import Iterator

import pytest

from cluster import names
from tests.architecture.checkout import SHIPPED, manual, python_of, tree_of

TEXT = manual()
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
    r"|\b(?:of model [AX]|[ABMNPX]|PATH|GPUs?|objects?|is|are|\d+|yet|for more than)\b"
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


def texts_of(tree: ast.AST) -> str:
    """All texts in a module, docstrings aside."""
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return "\n".join(
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents
    )


TEXTS = [texts_of(tree_of(path)) for path in python_of(*SHIPPED)]
"""The texts of each module that is shipped."""


def is_product_message(message: str) -> bool:
    """Whether one module has all that is the same each time: words of several make no message."""
    found = pieces(message)
    return bool(found) and any(all(piece in texts for piece in found) for texts in TEXTS)


def test_the_quoted_beginning_of_most_503_messages_is_the_products() -> None:
    (beginning,) = re.findall(r'Most messages of a 503 begin with "([^"]+)"', TEXT)
    assert any(f"{beginning} " in texts for texts in TEXTS)


@pytest.mark.parametrize("message", sorted(set(quoted()) - OF_KUBERNETES))
def test_quoted_messages_are_the_products(message: str) -> None:
    assert is_product_message(message), pieces(message)
