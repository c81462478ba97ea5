"""The executables of a devcluster, built from pinned Go modules and kept outside the checkout.

`ensure()` is what a cluster's start calls: immediate when they are there, ten to fifteen minutes on two
cores the first time. `python -m devcluster.binaries` does the same and prints the folder.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from devcluster.binaries.build import build
from devcluster.binaries.cache import cache_folder, kept
from devcluster.binaries.errors import BuildError
from devcluster.binaries.pins import TOOLS, key
from devcluster.binaries.progress import Progress, ProgressLine, Report, silent
from devcluster.binaries.toolchain import ensure_go

__all__ = ["Binaries", "BuildError", "Progress", "ProgressLine", "Report", "ensure"]

NAMES = tuple(name for tool in TOOLS for name in tool.names)


@dataclass(frozen=True, slots=True)
class Binaries:
    """The finished executables: one flat folder, fit for a PATH and for CNI's bin_dirs."""

    root: Path

    def path(self, name: str) -> Path:
        """Where an executable lies.

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
        BuildError: it could not be built; the sentence says what is missing and how to get it.

    """
    folder = cache_folder()
    place = folder / "binaries" / key()

    def make(draft: Path) -> None:
        toolchain = ensure_go(folder, report)
        for tool in TOOLS:
            build(tool, toolchain, draft, report)

    def waiting() -> None:
        report(Progress("binaries", "waiting for another process that builds the same"))

    return Binaries(kept(place, make, whole=is_whole, waiting=waiting))


def is_whole(place: Path) -> bool:
    """Whether every executable is in a folder."""
    return all(os.access(place / name, os.X_OK) for name in NAMES)
