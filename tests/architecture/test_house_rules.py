"""The rules of the house that a machine can check (CONTRIBUTING.md)."""

import ast
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("cluster", "deviceplugin", "extender")
FILE_LINES = 500
FUNCTION_LINES = 60
GRAB_BAGS = {"util", "utils", "common", "helper", "helpers", "misc", "manager"}


def tracked(*suffixes: str) -> list[Path]:
    # safe.directory: root in a container may read a checkout that is somebody else's.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    listed = done.stdout.splitlines()
    paths = [ROOT / line for line in listed if line.endswith(suffixes)]
    return [p for p in paths if p.exists() and "kubeletapi" not in p.parts]


def functions(path: Path) -> Iterator[tuple[str, int, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            yield node.name, node.end_lineno - node.lineno + 1, node


def test_no_file_is_longer_than_five_hundred_lines() -> None:
    sources = tracked(".py", ".c", ".h", ".go", ".sh", ".proto")
    long = {
        str(p.relative_to(ROOT)): n for p in sources if (n := len(p.read_text().splitlines())) > FILE_LINES
    }
    assert sources
    assert not long


def test_no_function_is_longer_than_sixty_lines() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{name} has {lines} lines"
        for path in tracked(".py")
        for name, lines, _ in functions(path)
        if lines > FUNCTION_LINES
    ]
    assert not long


def test_shipped_functions_take_at_most_four_positional_arguments() -> None:
    wide = [
        f"{path.relative_to(ROOT)}:{name}"
        for path in tracked(".py")
        if path.relative_to(ROOT).parts[0] in (*SHIPPED, "devcluster")
        for name, _, node in functions(path)
        if len([a for a in node.args.posonlyargs + node.args.args if a.arg not in {"self", "cls"}]) > 4
    ]
    assert not wide


def test_no_module_is_a_grab_bag() -> None:
    assert not [str(p) for p in tracked(".py") if p.stem in GRAB_BAGS or p.parent.name in GRAB_BAGS]


def test_no_test_folder_is_a_package_that_would_shadow_the_product() -> None:
    assert not [str(p) for p in tracked("__init__.py") if p.relative_to(ROOT).parts[0] == "tests"]


def test_architecture_says_every_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.split("## Import contracts")[1].split("## Laws")[0]
    said = [line.removeprefix("- ").rstrip(".") for line in section.splitlines() if line.startswith("- ")]
    assert said == [contract["name"] for contract in contracts]


@pytest.mark.parametrize("lock", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda p: p.name)
def test_a_lock_pins_hashes_and_names_no_address(lock: Path) -> None:
    text = lock.read_text()
    pins = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert "://" not in text
    assert "--index" not in text
    assert pins
    assert all("==" in pin and pin.endswith("\\") for pin in pins)
    assert text.count("--hash=sha256:") >= len(pins)


def test_strings_of_our_domain_stand_in_names_alone() -> None:
    def texts(path: Path) -> Iterator[str]:
        tree = ast.parse(path.read_text())
        documentation = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in documentation
            ):
                yield node.value

    strays = [
        f"{path.relative_to(ROOT)}: {text!r}"
        for path in tracked(".py")
        if path.relative_to(ROOT).parts[0] in SHIPPED and path != ROOT / "cluster" / "names.py"
        for text in texts(path)
        if "gpu-booking.io/" in text or text in {"nvidia.com/gpu", "GPU_BOOKING_DEVICES"}
    ]
    assert not strays
