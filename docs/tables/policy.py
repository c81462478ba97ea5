"""The rules of booking and the limits that a policy sets, from the rules' own files."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import msgspec

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.policy.values import LIMIT_NAMES, written_value
from booking.server.rules import RULES
from booking.server.service.states import STATES, TABLE, VERBS, Next, Why
from docs.tables.markdown import ROOT, code, docstrings, prose, table

FOLDER: Final = ROOT / "booking" / "server" / "rules"
BY_CASE: Final = {"counted": "scope", "is_spontaneous": "spontaneous"}
"""Properties of a case -> the limit that they evaluate."""


def states_table() -> str:
    """What each verb does to a booking in each state."""
    return table(
        ("state", *(code(verb) for verb in VERBS)),
        ((code(state), *(_became(TABLE[state][verb]) for verb in VERBS)) for state in STATES),
    )


def _became(found: Next | Why) -> str:
    if isinstance(found, Next):
        return " or ".join(code(state) for state in found.states)
    return f"refused, {code(found.rule)}: it {found.because}"


def limits_table() -> str:
    """Every limit: its default, what may be written, what it means, which rules use it."""
    meanings = docstrings(ROOT / "booking" / "policy" / "limits.py", "Limits")
    fields = {field.name: field for field in msgspec.structs.fields(Limits)}
    return table(
        ("limit", "default", "written as", "meaning", "rules"),
        (
            (
                code(limit),
                code(_default(fields[limit].default)),
                _kind(fields[limit].type),
                prose(meanings[limit]),
                ", ".join(code(rule) for rule, _, limits in _rules() if limit in limits),
            )
            for limit in LIMIT_NAMES
        ),
    )


def booking_rules_table() -> str:
    """Every rule: what breaks it, and the limits that it uses."""
    return table(
        ("rule", "what breaks it", "limits"),
        ((code(rule), meaning, ", ".join(map(code, limits))) for rule, meaning, limits in _rules()),
    )


@cache
def _rules() -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """(name, meaning, limits) of each rule, in the order in which they are evaluated."""
    return tuple(_read(FOLDER / f"{rule.__name__}.py", rule.__name__) for rule in RULES)


def _read(path: Path, function: str) -> tuple[str, str, tuple[str, ...]]:
    tree = ast.parse(path.read_text())
    limits = {limit for node in ast.walk(tree) if isinstance(node, ast.Attribute) for limit in _limits(node)}
    definition = next(
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function
    )
    meaning = prose(ast.get_docstring(definition) or "")
    return next(_names(tree)), meaning, tuple(limit for limit in LIMIT_NAMES if limit in limits)


def _limits(node: ast.Attribute) -> set[str]:
    """The limits that are read there, directly or through properties of the case."""
    of_case = isinstance(node.value, ast.Name) and node.value.id == "case"
    return {BY_CASE[node.attr]} if of_case and node.attr in BY_CASE else {node.attr}


def _names(module: ast.Module) -> Iterator[str]:
    """The rule that a module's violations name."""
    for node in ast.walk(module):
        if isinstance(node, ast.keyword) and node.arg == "rule" and isinstance(node.value, ast.Constant):
            yield str(node.value.value)


def _default(value: Any) -> str:
    written = written_value(value)
    if written is None:
        return "none"
    return str(written).lower() if isinstance(written, bool) else str(written)


def _kind(kind: Any) -> str:
    arms = get_args(kind)
    if get_origin(kind) is Literal:
        return " or ".join(map(code, arms))
    some = " or none" if type(None) in arms else ""
    plain = next((arm for arm in arms if arm is not type(None)), kind)
    return {Duration: "length", int: "number", bool: "true or false"}[plain] + some
