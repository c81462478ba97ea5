"""Installs Debian packages quietly: output in a file, no service started, no package upgraded or removed.

It uses nothing but the standard library: hostpackages calls it before any virtual environment exists.
"""

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from cluster import names

POLICY = Path("/usr/sbin/policy-rc.d")
"""Asked by Debian's packages before they start a service (invoke-rc.d(8)); absent: all may."""
FORBIDS = """#!/bin/sh
# Services of packages for a development cluster are not started. This file goes when apt-get ends.
exit 101
"""
TAIL = 15
"""Lines of apt's output that a failure shows."""


class Upgrade(NamedTuple):
    """A package that is there and would be replaced."""

    package: str
    there: str
    new: str


class AptError(Exception):
    """Nothing could be installed; the message says why and what to do."""


def upgrades(simulation: str) -> list[Upgrade]:
    """The packages that ``apt-get --simulate`` would replace, from what it prints."""
    return [
        Upgrade(*found) for found in re.findall(r"^Inst (\S+) \[([^\]]+)\] \((\S+)", simulation, re.MULTILINE)
    ]


def log_file(environment: Mapping[str, str]) -> Path:
    """The file for apt's output: `apt.log` in the cache folder, or elsewhere if there is none."""
    own, base, home = map(environment.get, (names.setting("cache"), "XDG_CACHE_HOME", "HOME"))
    folder = Path(own) if own else Path(base or f"{home or '/nonexistent'}/.cache", names.PRODUCT)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "apt.log"
        log.write_text("")
    except OSError:
        handle, name = tempfile.mkstemp(prefix="apt-", suffix=".log")
        os.close(handle)
        return Path(name)
    return log


@contextmanager
def no_services(policy: Path = POLICY) -> Iterator[None]:
    """Let no package start a service meanwhile. A policy of the machine's own stays as it is.

    What an earlier run left behind, because it was killed, is removed as well.
    """
    ours = not policy.exists() or policy.read_text(errors="replace") == FORBIDS
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        if ours:
            policy.write_text(FORBIDS)
            policy.chmod(0o755)
        yield
    finally:
        if ours and policy.exists():
            policy.unlink()
        signal.signal(signal.SIGTERM, before)


def install(
    packages: Sequence[str], *, upgrading: bool = False, again: str = "", policy: Path = POLICY
) -> None:
    """Install packages without asking questions.

    Args:
        packages: names of Debian packages.
        upgrading: whether packages that are there may be upgraded where the new ones need it.
        again: the command that allows this, for the message.
        policy: where Debian's packages look before they start a service.

    Raises:
        AptError: apt-get failed, or would have to upgrade what is there; then nothing has changed.

    """
    log = log_file(os.environ)
    print(
        f"Installing {len(packages)} Debian packages, with apt-get's output in {log}: {' '.join(packages)}",
        flush=True,
    )
    wanted = ["install", "-y", "--no-install-recommends", "--no-upgrade", "--no-remove"]
    _run(["update", "-q"], log)
    replaced = upgrades(_run([*wanted, "--simulate", *packages], log))
    if replaced and not upgrading:
        named = ", ".join(f"{each.package} ({each.there} to {each.new})" for each in replaced)
        raise AptError(
            f"To install these packages apt-get would upgrade {len(replaced)} that are there: {named}."
            f" Nothing was changed. Upgrade them yourself, or allow it: `{again}`."
        )
    with no_services(policy):
        _run([*wanted, "-q", *packages], log)


def _run(arguments: list[str], log: Path) -> str:
    """Run apt-get with its output in the file. Returns what this run wrote."""
    # needrestart, which Ubuntu has, would restart services after an installation.
    environment = {
        **os.environ,
        "DEBIAN_FRONTEND": "noninteractive",
        "NEEDRESTART_SUSPEND": "1",
        "LC_ALL": "C.UTF-8",
    }
    begin = log.stat().st_size
    with log.open("ab") as output:
        done = subprocess.run(
            ["apt-get", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    written = log.read_bytes()[begin:].decode(errors="replace")
    if done.returncode != 0:
        tail = "\n".join(f"    {line}" for line in written.splitlines()[-TAIL:])
        raise AptError(
            f"`apt-get {' '.join(arguments)}` failed with exit status {done.returncode}."
            f" All of its output is in {log}. It ended with:\n{tail}"
        )
    return written


def _exit(number: int, _frame: Any) -> None:
    raise SystemExit(128 + number)
