"""A folder of programs that stand in for those of a laptop, and the arguments that they were given."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT

STANDIN = Path(__file__).parent / "standin.py"
PROGRAMS = ("docker", "kind", "kubectl", "helm")
EVERYWHERE = ("bash", "cat", "dirname", "grep", "sed")
"""What any laptop has: nothing else of this machine is on the PATH."""


@dataclass(frozen=True)
class Laptop:
    """A PATH of its own."""

    folder: Path

    def install(self, *programs: str) -> None:
        """Put these on it."""
        for name in programs:
            program = self.folder / "bin" / name
            program.write_text(f'#!/bin/sh\nSTANDS_FOR={name} exec {sys.executable} {STANDIN} "$@"\n')
            program.chmod(0o755)

    def run(
        self, command: Sequence[str | Path], *, clusters: str = "", refused: str = "", together: int = 1
    ) -> subprocess.CompletedProcess[str]:
        """A command on that PATH, away from the checkout.

        Args:
            command: the command line.
            clusters: those that kind has.
            refused: the beginning of command lines that fail.
            together: how many of these must have been called before the first of them fails.
        """
        return subprocess.run(
            [str(word) for word in command],
            cwd=self.folder,
            env=self.environment(clusters=clusters, refused=refused, together=together),
            capture_output=True,
            text=True,
            check=False,
        )

    def environment(self, *, clusters: str = "", refused: str = "", together: int = 1) -> dict[str, str]:
        """The environment of a command on that PATH; arguments as for ``run``."""
        return {
            "PATH": str(self.folder / "bin"),
            "HOME": str(self.folder),
            "CALLS": str(self.folder / "calls"),
            "CLUSTERS": clusters,
            "REFUSED": refused,
            "TOGETHER": str(together),
            "LANG": os.environ.get("LANG", "C.UTF-8"),
        }

    def calls(self, *beginning: str) -> list[list[str]]:
        """What was called, in order; with words, what begins so."""
        file = self.folder / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        found = [list(json.loads(line)) for line in lines]
        return [words for words in found if tuple(words[: len(beginning)]) == beginning]


@pytest.fixture
def laptop(tmp_path: Path) -> Laptop:
    (tmp_path / "bin").mkdir()
    for name in EVERYWHERE:
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    return Laptop(tmp_path)


def up(laptop: Laptop, *, clusters: str = "", refused: str = "") -> subprocess.CompletedProcess[str]:
    """What `make kind` runs."""
    return laptop.run([ROOT / "kind" / "up.sh"], clusters=clusters, refused=refused)
