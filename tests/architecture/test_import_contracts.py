"""The import contracts are kept, are said in ARCHITECTURE.md, and leave no room and no library out."""

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.checkout import PACKAGES, ROOT, SHIPPED, name_of, python_of, tree_of

ANYBODY = {"_typeshed", "msgspec", "prometheus_client", "structlog"}
"""Libraries of which every room may make use."""
MANY = 10
"""With so many modules a room has layers, as has every room with rooms in it; small ones have no circles."""
FREE = {"booking.server.rules"}
"""Its modules know nothing of each other: a new one has no place among them to be given."""
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")

SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
FILES = ("contracts.toml", "contracts-booking.toml", "libraries.toml")
LINTERS: list[dict[str, Any]] = [
    tomllib.loads((ROOT / name).read_text())["tool"]["importlinter"] for name in FILES
]
CONTRACTS: list[dict[str, Any]] = [contract for linter in LINTERS for contract in linter["contracts"]]


@pytest.mark.parametrize("file", FILES)
def test_the_contracts_are_kept(file: str) -> None:
    command = [LINT_IMPORTS, "--no-cache", "--no-logo", "--config", file]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_architecture_document_describes_every_contract() -> None:
    section = (ROOT / "ARCHITECTURE.md").read_text().split("## Import contracts")[1].split("## Laws")[0]
    described = [" ".join(each.split()).rstrip(".") for each in section.split("\n- ")[1:]]
    assert described == [contract["name"] for contract in CONTRACTS]


def test_every_package_of_the_checkout_is_checked() -> None:
    assert [set(linter["root_packages"]) for linter in LINTERS] == [set(PACKAGES)] * len(FILES)
    assert set(SETTINGS["hatch"]["build"]["targets"]["wheel"]["packages"]) == set(SHIPPED)
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages == set(PACKAGES)


def large_rooms(*packages: str) -> set[str]:
    """Rooms with rooms in them, and those with many modules: where order is worth a contract."""
    modules = [path for path in python_of(*packages) if path.name != "__init__.py"]
    rooms = [path.parent for path in python_of(*packages) if path.name == "__init__.py"]
    sizes = Counter(path.parent for path in modules)
    with_rooms = {room.parent for room in rooms if room.parent != ROOT}
    found = {*with_rooms, *(room for room in rooms if sizes[room] >= MANY)}
    return {name_of(room).replace("/", ".") for room in found} - FREE


PLACED = {
    container
    for contract in CONTRACTS
    if contract["type"] == "layers" and contract.get("exhaustive")
    for container in contract["containers"]
}
"""Rooms with layers that are exhaustive."""


def test_every_room_with_rooms_or_many_modules_has_exhaustive_layers() -> None:
    assert large_rooms(*PACKAGES) - PLACED == set()
    assert set(PACKAGES) - PLACED == set()


def test_a_contract_says_which_rooms_may_import_each_library() -> None:
    placed = {
        library
        for contract in CONTRACTS
        if contract["type"] == "protected"
        for library in contract["protected_modules"]
    }
    known = {*sys.stdlib_module_names, *PACKAGES, *ANYBODY, *placed}
    homeless = {
        f"{name_of(path)}: {library}"
        for path in python_of(*PACKAGES)
        for library in {module.split(".")[0] for module in imported(path)}
        if library not in known
    }
    assert not homeless


def imported(path: Path) -> set[str]:
    """Modules that a file imports, wherever in it."""
    nodes = list(ast.walk(tree_of(path)))
    whole = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return whole | {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
