#!/usr/bin/env python3
"""Runs tests/gpu on this machine and prints a report: ``./run``, as root, in the folder of the bundle.

It is copied into the bundle and runs with only the standard library. Nothing is fetched. It unpacks next to
itself, changes no setting of a card, and removes at the end what it added to the system. Exit status: 0 all
tests that ran have passed, 1 one has failed, 2 they cannot run here, 3 nothing was tested on hardware.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import io
import json
import lzma
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from contextlib import contextmanager, suppress
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
WRONG, UNPLAYABLE, NOTHING_TESTED = 1, 2, 3
COMMANDS = Path("/usr/local/sbin")
"""The folder for added commands: it is on the path of the cluster's daemons."""
HIDDEN = ("/run", "/var/run", "/var/log", "/var/lib")
"""A node of the cluster sees empty folders of its own here."""
PLAYS = {
    "hardware": ("-m", "gpu", "tests/gpu"),
    "rehearsal": ("-m", "e2e", "tests/long/test_gpu_rehearsal.py"),
}
OPTIONS = (
    *("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "devcluster.bundle.report_plugin"),
    *("--timeout", "1200", "-q"),
)


class CannotPlayError(Exception):
    """The tests cannot run here, and why."""


class Played(NamedTuple):
    """A test and its outcome."""

    name: str
    outcome: str
    """``right``, ``wrong`` or ``not tested``."""
    seconds: float
    why: str


class Joined(io.RawIOBase):
    """The pieces as one file; each is read once, in their order."""

    def __init__(self, pieces: list[Path]) -> None:
        self._left = list(pieces)
        self._file: Any = None

    def readable(self) -> bool:
        """Always: bytes can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes; 0 at the end."""
        while True:
            if self._file is None:
                if not self._left:
                    return 0
                self._file = self._left.pop(0).open("rb")
            count: int = self._file.readinto(buffer)
            if count:
                return count
            self._file.close()
            self._file = None


def check(manifest: dict[str, Any], folder: Path, here: Path, *, root: bool) -> None:
    """Check that this machine can run the tests at all.

    Raises:
        CannotPlayError: it cannot.
    """
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if python != manifest["python"]:
        raise CannotPlayError(
            f"This is Python {python}, and the packages are for {manifest['python']}: run it by that one, or "
            f"pack again with `make gpu-bundle GPU_PYTHON={python}`."
        )
    if platform.machine() != manifest["machine"]:
        raise CannotPlayError(
            f"This is a {platform.machine()}, and the binaries are for {manifest['machine']}."
        )
    if not root:
        raise CannotPlayError("It needs root: pods are given GPUs by a kubelet of its own.")
    if any(folder.is_relative_to(hidden) for hidden in HIDDEN):
        raise CannotPlayError(f"{folder} is hidden from the cluster's nodes: name another by --folder.")
    for name, digest in manifest["parts"].items():
        if not (here / name).is_file() or _digest(here / name) != digest:
            raise CannotPlayError(f"{here / name} is missing or not what was packed: carry it over again.")


def unpack(manifest: dict[str, Any], folder: Path, here: Path) -> None:
    """Unpack everything into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    joined = io.BufferedReader(Joined([here / name for name in sorted(manifest["parts"])]))
    with lzma.open(joined) as plain, tarfile.open(fileobj=plain, mode="r|") as archive:
        for entry in archive:
            archive.extract(entry, folder, **_as_it_is())


def prepare(folder: Path) -> Path:
    """Make a virtual environment with the unpacked packages. Returns its Python."""
    where = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(where)], check=True)
    (packages,) = where.glob("lib/python*/site-packages")
    (packages / "bundle.pth").write_text(f"{folder / 'site'}\n")
    return where / "bin" / "python"


@contextmanager
def lending(folder: Path) -> Iterator[list[str]]:
    """Add commands and libraries that the system lacks, until the block ends. Yields their paths."""
    lent: list[Path] = []
    try:
        commands = sorted((folder / "lent/bin").glob("*"))
        lacking = [command for command in commands if shutil.which(command.name) is None]
        lent.extend(_lend_command(command, folder / "lent/lib") for command in lacking)
        for library in sorted((folder / "lent/lib").glob("libseccomp.so.*")):
            if not _loads(library.name):
                place = Path(f"/usr/lib/{platform.machine()}-linux-gnu", library.name)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(library, place)
                lent.append(place)
        yield [str(path) for path in lent]
    finally:
        for path in lent:
            path.unlink()


def play(python: Path, folder: Path, chosen: tuple[str, ...]) -> list[Played]:
    """Run tests, and show their own output as it comes. Returns the outcome of each."""
    outcomes = folder / "outcomes"
    outcomes.unlink(missing_ok=True)
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "TEST_REPORT": str(outcomes)}
    environment.pop("PYTHONPATH", None)
    command = [str(python), "-m", "pytest", *OPTIONS, *chosen]
    done = subprocess.run(command, cwd=folder / "checkout", env=environment, check=False)
    if not outcomes.exists():
        raise CannotPlayError(f"pytest ended with {done.returncode} before the first test.")
    return [Played(**json.loads(line)) for line in outcomes.read_text().splitlines()]


def facts() -> dict[str, str]:
    """The facts about this machine, for the report."""
    release = Path("/etc/os-release")
    lines = release.read_text().splitlines() if release.exists() else []
    system = next(
        (line.partition("=")[2].strip('"') for line in lines if line.startswith("PRETTY_NAME=")), "?"
    )
    query = "--query-gpu=name,driver_version,memory.total,mig.mode.current"
    return {
        "date": formatdate(usegmt=True),
        "system": f"{system}, Linux {platform.release()}, {platform.machine()}",
        "Python": platform.python_version(),
        "cgroups": "version 2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "version 1",
        "GPUs": _output("nvidia-smi", query, "--format=csv,noheader") or "no nvidia-smi: no driver here",
    }


def render(manifest: dict[str, Any], known: dict[str, str], played: dict[str, list[Played]]) -> str:
    """The report: the machine, every test, and what was not tested."""
    lines = [f"# GPU Booking {manifest['version']} on hardware", ""]
    lines += [f"- {name}: {text}" for name, text in known.items()]
    for title, tests in played.items():
        lines += ["", f"## {title}", "", "| test | outcome | seconds |", "| --- | --- | --- |"]
        lines += [f"| {test.name} | {test.outcome} | {test.seconds:.1f} |" for test in tests]
        reasons = sorted({f"{test.outcome}: {test.why}" for test in tests if test.why})
        lines += ["", *(f"- {line}" for line in reasons)] if reasons else []
    missing = [test.name for test in played.get("hardware", []) if test.outcome == "not tested"]
    lines += ["", f"**Not tested on hardware: {len(missing)}.** {', '.join(missing)}".rstrip()]
    return "\n".join(lines) + "\n"


def status(played: dict[str, list[Played]]) -> int:
    """The exit status for these outcomes."""
    tests = [test for some in played.values() for test in some]
    if any(test.outcome == "wrong" for test in tests):
        return WRONG
    return 0 if any(test.outcome == "right" for test in played.get("hardware", [])) else NOTHING_TESTED


def main() -> int:
    """Check the bundle, unpack it, run the tests and report; returns the exit code."""
    arguments = _arguments()
    manifest = json.loads((HERE / "manifest.json").read_text())
    folder = Path(arguments.folder).resolve()
    try:
        check(manifest, folder, HERE, root=os.geteuid() == 0)
        unpack(manifest, folder, HERE)
        python = prepare(folder)
        known = facts()
        chosen = ["hardware", "rehearsal"] if arguments.rehearse else ["hardware"]
        with lending(folder) as lent:
            known["lent to the system"] = ", ".join(lent) or "nothing"
            played = {name: play(python, folder, PLAYS[name]) for name in chosen}
    except CannotPlayError as error:
        sys.stderr.write(f"{error}\n")
        return UNPLAYABLE
    text = render(manifest, known, played)
    (HERE / "report.md").write_text(text)
    print(f"\n{text}")
    return status(played)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default=str(HERE / "unpacked"), help="where it is unpacked (%(default)s)")
    parser.add_argument("--rehearse", action="store_true", help="play the pods on simulated GPUs, too")
    return parser.parse_args()


def _as_it_is() -> dict[str, Any]:
    """Arguments of ``extract`` that trust our own archive, links and all; empty if Python has no filters."""
    return {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _lend_command(command: Path, libraries: Path) -> Path:
    place = COMMANDS / command.name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}" exec "{command}" "$@"\n')
    place.chmod(0o755)
    return place


def _loads(library: str) -> bool:
    with suppress(OSError):
        ctypes.CDLL(library)
        return True
    return False


def _output(*command: str) -> str:
    try:
        return "; ".join(
            subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        )
    except (OSError, subprocess.CalledProcessError):
        return ""


if __name__ == "__main__":
    sys.exit(main())
