"""What is logged is plain to somebody who does not know the code: whole statements, and the field's words."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.checkout import SHIPPED, name_of, python_of, tree_of

LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
LOGGERS = {"log", "_log"}
REPLACED = {
    "sentence": "message",
    "why": "reason",
    "trouble": "problem",
    "whose": "client",
    "about": "object",
    "by": "current_holder",
    "from_holder": "previous_holder",
}
"""Keys that nobody outside would search for -> what they are called."""


def lines_of(tree: ast.AST) -> Iterator[tuple[ast.Call, list[str]]]:
    """Every call that writes a line, with the events that it may write."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr=level)):
                if name in LOGGERS and level in LEVELS:
                    event = node.args[1] if level == "log" else node.args[0]
                    yield node, list(events_in(event))


def events_in(event: ast.expr) -> Iterator[str]:
    match event:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from events_in(body)
            yield from events_in(orelse)


def cryptic(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and event of what is said in a single word."""
    for call, events in lines_of(tree):
        yield from ((call.lineno, event) for event in events if " " not in event)


def replaced(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and key of what has another name."""
    for call, _ in lines_of(tree):
        yield from ((call.lineno, key.arg) for key in call.keywords if key.arg in REPLACED)


def test_every_log_event_is_a_statement() -> None:
    assert [(name_of(path), *found) for path in python_of(*SHIPPED) for found in cryptic(tree_of(path))] == []


def test_log_keys_are_the_words_of_the_field() -> None:
    assert [
        (name_of(path), *found) for path in python_of(*SHIPPED) for found in replaced(tree_of(path))
    ] == []


@pytest.mark.parametrize(
    ("line", "words", "keys"),
    [
        ('log.warning("NVML", sentence=text)', ["NVML"], ["sentence"]),
        ('self._log.info("leading" if led else "not leading")', ["leading"], []),
        ('log.log(level, "devices", whose=user)', ["devices"], ["whose"]),
        ('log.info("the lease is released", reason=text)', [], []),
    ],
)
def test_single_words_and_former_keys_are_found(line: str, words: list[str], keys: list[str]) -> None:
    tree = ast.parse(line)
    assert [event for _, event in cryptic(tree)] == words
    assert [key for _, key in replaced(tree)] == keys
