"""The tables in docs/ are what docs/generate.py makes of the code, and say everything that the code has."""

import ast
import importlib
import re
from pathlib import Path

import msgspec
import pytest

from cluster import names
from cluster.process.settings import load
from devcluster.binaries.pins import TOOLS, Tool, version
from docs.generate import DOCUMENTS, render
from docs.tables.markdown import ROOT, docstrings
from docs.tables.metrics import exposed_name, made_in_code, metrics_of
from docs.tables.parts import PARTS, PROGRAMS, Program
from docs.tables.reasons import reasons_of_events
from docs.tables.settings import written
from tests.architecture.checkout import SHIPPED, manual, name_of, python_of, tree_of

OPERATIONS = manual()
REASONS = ROOT / "cluster" / "event_reasons.py"
by_program = pytest.mark.parametrize("part", PROGRAMS, ids=lambda part: part.name)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_generating_again_changes_nothing(document: Path) -> None:
    text = document.read_text()
    assert render(text) == text, "run `make docs` and commit the result"


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


# --- metrics -----------------------------------------------------------------------------------------
def test_every_metric_in_the_code_is_registered_by_some_part() -> None:
    """One that is made in code and by no part would be counted and never shown."""
    registered = {
        metric.name.removeprefix(f"{names.METRICS_PREFIX}_") for p in PARTS for metric in metrics_of(p)
    }
    assert made_in_code().keys() - registered == set()


def test_the_documents_name_no_unknown_metric() -> None:
    known = {exposed_name(metric) for part in PARTS for metric in metrics_of(part)}
    text = f"{(ROOT / 'README.md').read_text()}{OPERATIONS}"
    assert set(re.findall(rf"\b{names.METRICS_PREFIX}_[a-z_]+", text)) - known == set()


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


def is_known_reason(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "event_reasons":
        return node.attr in reasons_of_events()
    # A table of names, looked up: its values are checked where it is written.
    return isinstance(node, ast.Name | ast.Subscript)


def test_every_event_reason_is_used_by_some_part() -> None:
    code = "".join(path.read_text() for path in python_of(*SHIPPED) if path != REASONS)
    assert [name for name in reasons_of_events() if f"event_reasons.{name}" not in code] == []


# --- versions ----------------------------------------------------------------------------------------
TESTED = [tool for tool in TOOLS if tool.name in {"kubernetes", "etcd", "containerd", "runc", "helm"}]


@pytest.mark.parametrize("tool", TESTED, ids=[tool.name for tool in TESTED])
def test_the_pinned_version_is_the_one_named_in_the_table(tool: Tool) -> None:
    rows = [
        line for line in (ROOT / "docs" / "tested-with.md").read_text().splitlines() if line.startswith("| ")
    ]
    pinned = version(tool).removeprefix("v")
    assert [row for row in rows if f" {pinned}" in row.split("|")[-2]], f"{tool.name} {pinned}"
