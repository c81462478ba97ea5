"""The executables of a devcluster, built from pinned Go modules and kept outside the checkout.

A cluster's start calls `ensure()`: it returns at once if they are there, and takes ten to fifteen minutes on
two cores the first time. `python -m devcluster.binaries` does the same and prints the folder.

Each tool is kept in a folder of its own, so that a new version of one rebuilds that one alone. Callers get a
folder of links to all of them. `ensure_tool()` builds a single tool, such as kwok, which only measurements
need.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from devcluster.binaries.build import build
from devcluster.binaries.cache import cache_folder, kept
from devcluster.binaries.errors import BuildError
from devcluster.binaries.pins import TOOLS, Tool, common_key, key, version
from devcluster.binaries.progress import Progress, ProgressLine, Report, Whole, places, silent
from devcluster.binaries.toolchain import ensure_go

__all__ = ["Binaries", "BuildError", "Progress", "ProgressLine", "Report", "ensure", "ensure_tool"]

NAMES = tuple(name for tool in TOOLS for name in tool.names)


@dataclass(frozen=True, slots=True)
class Binaries:
    """The finished executables: one flat folder of links, fit for a PATH and for CNI's bin_dirs."""

    root: Path

    def path(self, name: str) -> Path:
        """The path of an executable.

        Raises:
            BuildError: nothing of that name is built.

        """
        if name not in NAMES:
            raise BuildError(
                f"No executable {name!r} is built for a devcluster: there are {', '.join(NAMES)}."
            )
        return self.root / name


def ensure(report: Report = silent) -> Binaries:
    """Every executable that a cluster needs, built first if it is not in the cache.

    Raises:
        BuildError: it could not be built; the message names what is missing and how to get it.

    """
    folder = cache_folder()
    shelf = folder / "binaries"
    keys = {tool: key(tool) for tool in TOOLS}

    def compose(draft: Path) -> None:
        due = [tool for tool in TOOLS if not _has(shelf / keys[tool], tool.names)]
        where = dict(zip(due, places([tool.seconds for tool in due]), strict=True))
        for tool in TOOLS:
            _keep(tool, shelf / keys[tool], folder, partial(_report_in, where.get(tool), report))
            for name in tool.names:
                # Relative, so that the whole cache can be moved.
                (draft / name).symlink_to(Path("..", keys[tool], name))

    waiting = partial(_wait, "binaries", report)
    return Binaries(kept(shelf / common_key(keys.values()), compose, whole=is_whole, waiting=waiting))


def ensure_tool(tool: Tool, report: Report = silent) -> Path:
    """The folder with one tool's executables, built first if it is not in the cache.

    Raises:
        BuildError: it could not be built; the message names what is missing and how to get it.

    """
    folder = cache_folder()
    place = folder / "binaries" / key(tool)
    _keep(tool, place, folder, report)
    return place


def _wait(subject: str, report: Report) -> None:
    report(Progress(subject, "waiting for another process that builds the same"))


def _report_in(whole: Whole | None, report: Report, progress: Progress) -> None:
    """Pass a report on, with the tool's place among all that are built."""
    report(replace(progress, whole=whole))


def _keep(tool: Tool, place: Path, folder: Path, report: Report) -> None:
    """Build one tool's executables into their place, unless they are there."""

    def make(draft: Path) -> None:
        build(tool, ensure_go(folder, report), draft, report)

    # The other process may be of another checkout, whose other tools differ.
    waiting = partial(_wait, f"{tool.name} {version(tool)}", report)
    kept(place, make, whole=lambda place: _has(place, tool.names), waiting=waiting)


def is_whole(place: Path) -> bool:
    """Whether a folder has every executable; a dangling link does not count."""
    return _has(place, NAMES)


def _has(place: Path, names: Iterable[str]) -> bool:
    return all(os.access(place / name, os.X_OK) for name in names)
