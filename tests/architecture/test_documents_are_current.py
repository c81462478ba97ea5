"""The tables in docs/ are what docs/generate.py makes of the code, and say everything that the code has."""

import ast
import importlib
import re
import typing
from pathlib import Path

import msgspec
import pytest

from booking.admission.review import Kind as Outcome
from booking.reclaimer.evictor import Reason
from cluster import event_reasons, names
from cluster.decide import predicates
from cluster.process.settings import load
from docs.generate import DOCUMENTS, TABLES, UnknownTableError, render
from docs.tables.markdown import ROOT, docstrings
from docs.tables.metrics import exposed_name, made_in_code, metrics_of
from docs.tables.parts import PARTS, PROGRAMS, Part, Program
from docs.tables.reasons import problem_kinds, reasons_of_events, rules
from docs.tables.settings import written
from extender.binding.bind_decision import NOT_LEADING
from tests.architecture.checkout import SHIPPED, manual, name_of, python_of, tree_of

OPERATIONS = manual()
NAMES = ROOT / "cluster" / "names.py"
REASONS = ROOT / "cluster" / "event_reasons.py"
by_part = pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
by_program = pytest.mark.parametrize("part", PROGRAMS, ids=lambda part: part.name)


def column(table: str) -> list[str]:
    """The first column of a table of the document, as it is typed."""
    text = OPERATIONS.split(f"<!-- generated: {table} -->")[1].split("<!-- end -->")[0]
    return [line.split("|")[1].strip().strip("`") for line in text.strip().splitlines()[2:]]


def table_of(part: Program) -> str:
    return part.name.replace("booking server", "server").replace(" ", "-")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_generating_again_changes_nothing(document: Path) -> None:
    text = document.read_text()
    assert render(text) == text, "run `make docs` and commit the result"


def test_every_table_is_in_a_document() -> None:
    text = "".join(document.read_text() for document in DOCUMENTS)
    assert [name for name in TABLES if f"<!-- generated: {name} -->" not in text] == []


def test_a_marker_of_an_unknown_table_is_an_error() -> None:
    with pytest.raises(UnknownTableError, match="no table 'weather'"):
        render("<!-- generated: weather -->\n<!-- end -->")


# --- settings ----------------------------------------------------------------------------------------
def test_every_settings_struct_that_a_part_loads_has_a_table() -> None:
    loaded = {
        (name_of(path), node.args[0].id)
        for path in python_of(*SHIPPED)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "load"
        if isinstance(node.args[0], ast.Name)
    }
    assert loaded == {(f"{part.root.replace('.', '/')}.py", part.settings.__name__) for part in PROGRAMS}


@by_program
def test_the_documented_settings_are_those_of_the_code(part: Program) -> None:
    fields = [field.name for field in msgspec.structs.fields(part.settings)]
    assert column(f"settings-{table_of(part)}") == [names.setting(name) for name in fields]


@by_program
def test_every_setting_has_a_docstring(part: Program) -> None:
    module = importlib.import_module(part.settings.__module__)
    documented = docstrings(Path(str(module.__file__)), part.settings.__name__)
    assert {field.name for field in msgspec.structs.fields(part.settings)} - documented.keys() == set()


@by_program
def test_defaults_are_shown_in_the_form_that_the_environment_takes(part: Program) -> None:
    fields = msgspec.structs.fields(part.settings)
    needed = {names.setting(field.name): "x" for field in fields if field.required}
    shown = {names.setting(f.name): written(f.default) for f in fields if not f.required}
    assert load(part.settings, {**needed, **shown}) == load(part.settings, needed)


def test_the_documents_name_no_unknown_setting() -> None:
    known = {names.setting(f.name) for part in PROGRAMS for f in msgspec.structs.fields(part.settings)}
    known |= {names.DEVICES_VARIABLE, names.GPU_MEMORY_VARIABLE, names.GPU_CORES_VARIABLE}
    known |= {names.setting("port")}
    mentioned = set(re.findall(rf"{names.SETTINGS_PREFIX}[A-Z_]+", OPERATIONS))
    assert mentioned - known == set()


def test_every_setting_named_in_a_message_exists() -> None:
    known = {field.name for part in PROGRAMS for field in msgspec.structs.fields(part.settings)}
    known |= {"url", "token", "token_file", "ca_file"}  # of the command line, which has no struct for them
    named = {
        f"{name_of(path)}: {node.args[0].value}"
        for path in python_of(*SHIPPED)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setting"
        if isinstance(node.args[0], ast.Constant) and node.args[0].value not in known
    }
    assert named == set()


# --- metrics -----------------------------------------------------------------------------------------
@by_part
def test_the_documented_metrics_are_those_that_the_built_part_registers(part: Part) -> None:
    registered = sorted(exposed_name(metric) for metric in metrics_of(part))
    assert registered
    assert column(f"metrics-{table_of(part)}") == registered


def test_every_metric_in_the_code_is_registered_by_some_part() -> None:
    """One that is made in code and by no part would be counted and never shown."""
    registered = {
        metric.name.removeprefix(f"{names.METRICS_PREFIX}_") for p in PARTS for metric in metrics_of(p)
    }
    assert made_in_code().keys() - registered == set()


def test_every_metric_begins_with_our_prefix() -> None:
    others = [
        f"{part.name}: {name}"
        for part in PARTS
        for name in {metric.name for metric in metrics_of(part)}
        if not name.startswith(f"{names.METRICS_PREFIX}_")
    ]
    assert not others


def test_the_documents_name_no_unknown_metric() -> None:
    known = {exposed_name(metric) for part in PARTS for metric in metrics_of(part)}
    text = f"{(ROOT / 'README.md').read_text()}{OPERATIONS}"
    assert set(re.findall(rf"\b{names.METRICS_PREFIX}_[a-z_]+", text)) - known == set()


# --- reasons -----------------------------------------------------------------------------------------
def test_the_documented_reasons_of_events_are_those_of_the_code() -> None:
    assert column("events") == sorted(getattr(event_reasons, name) for name in reasons_of_events())


def test_every_event_has_a_reason_defined_in_names() -> None:
    """Or with one that was handed on; a literal would be a reason that nobody has documented."""
    strange = [
        f"{name_of(path)}:{call.lineno}: {ast.unparse(call.args[1])}"
        for path in python_of(*SHIPPED)
        for call in ast.walk(tree_of(path))
        if isinstance(call, ast.Call) and writes_event(call) and not is_known_reason(call.args[1])
    ]
    assert not strange


def writes_event(call: ast.Call) -> bool:
    """Whether a call writes an Event: ``(about, reason, sentence)``."""
    verb = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    form_request_of = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    writers = ("events", "recorder")
    return len(call.args) == 3 and (
        verb in {"write_event", "_write_event", "_report"}
        or any(writer in form_request_of.lower() for writer in writers)
    )


def test_every_part_that_writes_events_is_found() -> None:
    """A writer under another name would be overlooked by the test above."""
    writers = {
        path.relative_to(ROOT).parts[0]
        for path in python_of(*SHIPPED)
        for call in ast.walk(tree_of(path))
        if isinstance(call, ast.Call) and writes_event(call) and "event_reasons." in ast.unparse(call.args[1])
    }
    assert writers == {"booking", "extender", "deviceplugin"}


def is_known_reason(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "event_reasons":
        return node.attr in reasons_of_events()
    # A table of names, looked up: its values are checked where it is written.
    return isinstance(node, ast.Name | ast.Subscript)


def test_every_event_reason_is_used_by_some_part() -> None:
    code = "".join(path.read_text() for path in python_of(*SHIPPED) if path != REASONS)
    assert [name for name in reasons_of_events() if f"event_reasons.{name}" not in code] == []


def test_the_documented_problems_are_the_kinds_of_the_code() -> None:
    assert set(column("problems")) == {kind.uri for kind in problem_kinds()}


def test_problem_kinds_are_created_at_module_level_or_from_a_status() -> None:
    """One that is made elsewhere would not be found."""
    made = [
        f"{name_of(path)}:{function.name}"
        for path in python_of("booking")
        for function in ast.walk(tree_of(path))
        if isinstance(function, ast.FunctionDef)
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Kind"
    ]
    assert made == ["booking/web/problems.py:_plain"]


def test_the_documented_rules_are_those_of_the_code() -> None:
    assert column("rules") == list(rules())
    assert {
        "cooldown",
        "shortest",
        "capacity",
        "over",
        "unknown-field",
        "malformed-parameter",
    } <= rules().keys()


def test_the_reason_why_a_pod_left_is_one_of_the_documented_words() -> None:
    docstring = docstrings(NAMES)["COMEBACK_REASON"]
    assert re.findall(r"``([a-z]+)``", docstring) == list(typing.get_args(Reason))


def test_every_outcome_of_admission_is_named_where_it_is_counted() -> None:
    documentation = next(
        metric.documentation
        for part in PARTS
        for metric in metrics_of(part)
        if metric.name.endswith("_admission_requests")
    )
    assert [outcome for outcome in typing.get_args(Outcome) if outcome not in documentation] == []


def rejection_messages() -> list[str]:
    """Every constant sentence of why a pod does not fit on a node."""
    found: list[str] = [NOT_LEADING]
    for name, value in vars(predicates).items():
        if name.isupper():
            found += value.values() if isinstance(value, dict) else [value]
    return found


@pytest.mark.parametrize("message", rejection_messages())
def test_every_reason_for_which_a_pod_waits_is_explained(message: str) -> None:
    assert message in OPERATIONS


# --- names and links ---------------------------------------------------------------------------------
def test_every_constant_of_names_has_a_docstring() -> None:
    documented = docstrings(NAMES)
    ours = {
        name
        for name, value in vars(names).items()
        if name.isupper() and isinstance(value, str) and name not in {"DOMAIN", "STATE_DOMAIN", "PRODUCT"}
        if not name.endswith("_PREFIX") and not value.startswith(names.NVIDIA_PREFIX)
    }
    assert ours - documented.keys() == set()
