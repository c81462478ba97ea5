"""Reasons that are reported to programs and people: of Events, problems of the REST API, broken rules."""

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final

from booking.server import web
from booking.server.service.states import TABLE, Why
from booking.server.web.problems import Kind
from cluster import event_reasons, names
from docs.tables.markdown import ROOT, code, docstrings, prose, table, template

EVENTS: Final = {"extender": names.EXTENDER, "booking": names.CONTROLLER, "deviceplugin": names.NODE_AGENT}
"""Package -> the component that writes its Events."""
_ABOUT: Final = ("rule", "message")


class UnreadableError(ValueError):
    """Code that reports a reason in a way that this module cannot read."""


def events_table() -> str:
    """Every reason of Events: who writes it, and when."""
    rows = []
    for name, meaning in reasons_of_events().items():
        writers = [who for package, who in EVENTS.items() if _uses(package, name)]
        when = prose(meaning).partition(" of ")[2].removeprefix("the ")
        rows.append((code(getattr(event_reasons, name)), ", ".join(map(code, writers)), when))
    return table(("reason", "written by", "what it is"), sorted(rows))


def reasons_of_events() -> dict[str, str]:
    """Constant in event_reasons.py -> its docstring."""
    return docstrings(ROOT / "cluster" / "event_reasons.py")


def problems_table() -> str:
    """Every type of problem of the REST API."""
    rows = sorted((code(kind.uri), str(kind.status.value), kind.title) for kind in problem_kinds())
    return table(("type", "status", "title"), rows)


def problem_kinds() -> set[Kind]:
    """The kinds of problems in all modules of the web."""
    found = pkgutil.iter_modules(web.__path__, f"{web.__name__}.")
    modules: list[ModuleType] = [importlib.import_module(module.name) for module in found]
    return {value for module in modules for _, value in inspect.getmembers(module) if isinstance(value, Kind)}


def rules_table() -> str:
    """Every ``rule`` of a violation, with its message."""
    return table(("rule", "message"), ((code(rule), _cell(text)) for rule, text in rules().items()))


@cache
def rules() -> dict[str, str]:
    """Rule -> its message, for every violation that the booking server may report."""
    functions = [
        node
        for path in sorted((ROOT / "booking").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    ]
    takers = {taker.name: taker for taker in (*MADE, *map(_taker, filter(_hands_on, functions)))}
    messages_of: dict[str, dict[str, None]] = {}
    for why in _of_states():
        messages_of.setdefault(why.rule, {})[f"The booking … {why.because}"] = None
    for function in functions:
        for rule, message in _reasons_in(function, takers):
            messages_of.setdefault(rule, {})[message] = None
    return {rule: " / ".join(messages) for rule, messages in sorted(messages_of.items())}


@dataclass(frozen=True)
class _Taker:
    """A function or struct that takes a rule and a message."""

    name: str
    places: dict[str, int] = field(default_factory=dict)
    """Parameter -> its position."""
    frame: str = "…"
    """The text that it builds, in which the message replaces the last "…"."""


MADE: Final = (_Taker("Violation"), _Taker("ProblemViolation"))
_MADE: Final = frozenset(taker.name for taker in MADE)
TABLED: Final = frozenset({"rejection"})
"""Functions whose rules are in the table of states."""


def _of_states() -> list[Why]:
    return [found for verbs in TABLE.values() for found in verbs.values() if isinstance(found, Why)]


def _hands_on(function: ast.FunctionDef) -> bool:
    """Whether a function builds a violation of the rule that is passed to it."""
    given = {argument.arg for argument in function.args.args}
    return "rule" in given and any(name in {"Violation", "ProblemViolation"} for name, _ in _calls(function))


def _taker(function: ast.FunctionDef) -> _Taker:
    names_ = [argument.arg for argument in function.args.args if argument.arg not in {"self", "cls"}]
    places: dict[str, int] = {name: names_.index(name) for name in _ABOUT if name in names_}
    made = next(call for name, call in _calls(function) if name in {"Violation", "ProblemViolation"})
    message = _given(made, "message", {})
    return _Taker(function.name, places, template(message, _assigned(function)) if message else "…")


def _reasons_in(function: ast.FunctionDef, takers: Mapping[str, _Taker]) -> Iterator[tuple[str, str]]:
    for name, call in _calls(function):
        if name not in takers or any(word.arg is None for word in call.keywords):
            continue
        taker = takers[name]
        rule = _given(call, "rule", taker.places)
        if isinstance(rule, ast.Constant):
            given = _given(call, "message", taker.places)
            text = template(given, _assigned(function)) if given else "…"
            before, _, after = taker.frame.rpartition("…")
            yield str(rule.value), f"{before}{text}{after}"
        elif name not in _MADE and not isinstance(rule, ast.Name):
            continue  # Another function of that name.
        elif function.name not in takers and function.name not in TABLED:
            raise UnreadableError(f"{function.name} breaks which rule? {ast.unparse(call)}")


def _calls(function: ast.FunctionDef) -> list[tuple[str, ast.Call]]:
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    return [(getattr(call.func, "id", getattr(call.func, "attr", "")), call) for call in calls]


def _assigned(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """The first value that is assigned to each name of a function."""
    found: dict[str, ast.expr] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, node.value)
    return found


def _given(call: ast.Call, what: str, places: Mapping[str, int]) -> ast.expr | None:
    named = next((word.value for word in call.keywords if word.arg == what), None)
    place = places.get(what)
    return named or (call.args[place] if place is not None and place < len(call.args) else None)


def _uses(package: str, name: str) -> bool:
    return any(f"event_reasons.{name}" in path.read_text() for path in Path(ROOT / package).rglob("*.py"))


def _cell(text: str) -> str:
    return text.replace("|", r"\|").strip()
