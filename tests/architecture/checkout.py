"""The files of this checkout, as the checks of the house see them."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PARTS: Final = ("booking", "cluster", "deviceplugin", "extender")
SHIPPED: Final = (*PARTS, "demo")
PACKAGES: Final = (*SHIPPED, "devcluster")
GENERATED: Final = "kubeletapi"
MANUAL: Final = ROOT / "docs" / "operations"


def tracked(*suffixes: str) -> list[Path]:
    """Files that are tracked, or would be if they were added, by how they end; generated code left out."""
    return [path for path in _listed() if path.name.endswith(suffixes or ("",))]


@cache
def _listed() -> tuple[Path, ...]:
    # safe.directory: root in a container may read a checkout that is somebody else's.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    paths = [ROOT / line for line in done.stdout.splitlines()]
    return tuple(path for path in paths if path.is_file() and GENERATED not in path.parts)


def python_of(*rooms: str) -> list[Path]:
    """Python files of some top-level rooms."""
    return [path for path in tracked(".py") if path.relative_to(ROOT).parts[0] in rooms]


def texts() -> Iterator[tuple[str, str]]:
    """Name and text of every tracked file that is text."""
    for path in tracked():
        try:
            yield name_of(path), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def name_of(path: Path) -> str:
    """A file as people name it: its path from the root of the checkout."""
    return str(path.relative_to(ROOT))


def manual() -> str:
    """The text of all pages of docs/operations."""
    return "\n".join(path.read_text() for path in sorted(MANUAL.glob("*.md")))


@cache
def tree_of(path: Path) -> ast.Module:
    """A Python file, parsed once for all checks."""
    return ast.parse(path.read_text())
