"""What this machine must have before anything of the project is built or started, and how to get it.

`make run` calls it first, with the system's Python and before any virtual environment exists:
`python3 -m devcluster.hostpackages [venv|images|cluster|tests] [--upgrade]`. It uses nothing but the standard
library and no syntax newer than Python 3.7, so that an old Python gets a message instead of a SyntaxError.
When nothing is missing it is silent and fast; therefore slow modules are imported where they are used.

`venv` is what tests without a cluster need, `images` what building images needs, `cluster` (the default) what
running the product needs, `tests` everything.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import NamedTuple

OLDEST_PYTHON = (3, 11)
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where Debian keeps `ip`, `nft` and `iptables`; not on every user's PATH."""
DATABASE_FOLDERS = "/usr/lib/postgresql"
"""Debian keeps PostgreSQL's own programs below this folder, one folder per version, and not on PATH."""


class Need(NamedTuple):
    """One thing that the project uses, found as a command, a file or a Python module."""

    kind: str
    """`command`, `file` or `module`."""
    name: str
    """For a file, its path, with * as a wildcard."""
    package: str
    """The Debian package that provides it; `{python}` stands for python3.11 and the like."""


VENV_NEEDS = (
    Need("module", "venv", "{python}-venv"),
    Need("module", "ensurepip", "{python}-venv"),
    Need("file", "/etc/ssl/certs/ca-certificates.crt", "ca-certificates"),
    Need("command", "gcc", "gcc"),
    Need("file", "/usr/include/stdio.h", "libc6-dev"),
)
IMAGES_NEEDS = (
    *VENV_NEEDS,
    Need("command", "buildah", "buildah"),
    Need("command", "mmdebstrap", "mmdebstrap"),
    # The keys with which mmdebstrap verifies Debian's packages on Ubuntu. Newer ones end in .pgp.
    Need("file", "/usr/share/keyrings/debian-archive-keyring.*", "debian-archive-keyring"),
    Need("command", "gpg", "gpg"),
    Need("command", "findmnt", "util-linux"),
)
CLUSTER_NEEDS = (
    *IMAGES_NEEDS,
    Need("command", "ip", "iproute2"),
    Need("command", "nft", "nftables"),
    Need("command", "iptables", "iptables"),
    Need("command", "openssl", "openssl"),
    Need("command", "unshare", "util-linux"),
    Need("command", "nsenter", "util-linux"),
    Need("command", "setpriv", "util-linux"),
    Need("command", "mount", "mount"),
    Need("command", "umount", "mount"),
    Need("command", "pkg-config", "pkgconf"),
    Need("file", "/usr/include/seccomp.h", "libseccomp-dev"),
)
TESTS_NEEDS = (
    *CLUSTER_NEEDS,
    Need("command", "postgres", "postgresql"),
    Need("command", "chromium", "chromium"),
    Need("command", "promtool", "prometheus"),
)
NEEDS = {"venv": VENV_NEEDS, "images": IMAGES_NEEDS, "cluster": CLUSTER_NEEDS, "tests": TESTS_NEEDS}
COMMANDS = {"venv": "make check", "images": "make image", "cluster": "make run", "tests": "make test"}
"""A command of the Makefile that each purpose is for, to be named in messages."""


class Facts(NamedTuple):
    """The facts about a machine that the plan depends on."""

    linux: bool
    root: bool
    python: tuple[int, int]
    debian_like: bool
    """Whether it is Debian, Ubuntu or a system that names itself like them, and has apt-get."""
    missing: tuple[Need, ...]


class Plan(NamedTuple):
    """What to do: install packages, refuse with a message, or (both empty) nothing."""

    install: tuple[str, ...] = ()
    refusal: str = ""


def plan(facts: Facts, purpose: str = "cluster") -> Plan:
    """Decide: nothing to do, packages to install, or a refusal with its reason."""
    if not facts.linux:
        return Plan(refusal="This project runs on Linux only: it needs namespaces and cgroups.")
    if facts.python < OLDEST_PYTHON:
        found, oldest = (".".join(map(str, version)) for version in (facts.python, OLDEST_PYTHON))
        return Plan(
            refusal=f"This is Python {found}, and {oldest} or newer is needed: install one and name it,"
            f" for example `make run PYTHON=python{oldest}`."
        )
    packages = packages_for(facts)
    if purpose != "venv" and not facts.root:
        also = f" Missing besides: {' '.join(packages)}." if packages else ""
        why = "A cluster needs root (namespaces, mounts, network)"
        if purpose == "images":
            why = "Without Docker, images need root (mounts, owners of files)"
        return Plan(refusal=f"{why}: run the same as root, for example with `sudo`.{also}")
    if not packages or (facts.root and facts.debian_like):
        return Plan(install=packages)
    missed = ", ".join(need.name for need in facts.missing)
    if facts.debian_like:
        how = f"As root: `apt-get install --no-install-recommends {' '.join(packages)}`."
    else:
        how = f"Install what gives them here; on Debian that is: {' '.join(packages)}."
    return Plan(refusal=f"This machine lacks {missed}. {how}")


def packages_for(facts: Facts) -> tuple[str, ...]:
    """The Debian packages that provide what is missing, each once, in a stable order."""
    python = "python{}.{}".format(*facts.python)
    return tuple(sorted({need.package.format(python=python) for need in facts.missing}))


def is_debian_like(os_release: str) -> bool:
    """Whether the text of os-release (freedesktop.org) says Debian, Ubuntu or something like them."""
    values = dict(line.split("=", 1) for line in os_release.splitlines() if "=" in line)
    words = f"{values.get('ID', '')} {values.get('ID_LIKE', '')}".replace('"', " ").split()
    return "debian" in words or "ubuntu" in words


def is_there(need: Need, folders: list[str]) -> bool:
    """Whether this machine has what one need names; commands are looked for in the given folders."""
    if need.kind == "module":
        return importlib.util.find_spec(need.name) is not None
    if need.kind == "file":
        return any(Path("/").glob(need.name.lstrip("/")))
    return any(os.access(Path(folder, need.name), os.X_OK) for folder in folders)


def purpose_here(purpose: str, folders: list[str]) -> str:
    """What a purpose comes to on this machine: Docker builds images, and needs neither root nor packages."""
    docker = is_there(Need("command", "docker", "docker"), folders)
    return "venv" if purpose == "images" and docker else purpose


def survey(needs: tuple[Need, ...]) -> Facts:
    """The facts about this machine, with those of the needs that it lacks."""
    databases = map(str, Path(DATABASE_FOLDERS).glob("*/bin"))
    folders = [*os.environ.get("PATH", os.defpath).split(os.pathsep), *SYSTEM_FOLDERS, *databases]
    try:
        os_release = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        os_release = ""
    return Facts(
        linux=sys.platform == "linux",
        root=hasattr(os, "geteuid") and os.geteuid() == 0,
        python=(sys.version_info[0], sys.version_info[1]),
        debian_like=is_debian_like(os_release) and is_there(Need("command", "apt-get", "apt"), folders),
        missing=tuple(need for need in needs if not is_there(need, folders)),
    )


def main(arguments: list[str]) -> int:
    """Install what a purpose needs and the machine lacks. Returns 0 when everything is there."""
    upgrading = "--upgrade" in arguments
    purposes = [argument for argument in arguments if argument != "--upgrade"] or ["cluster"]
    if len(purposes) > 1 or purposes[0] not in NEEDS:
        print(
            "usage: python3 -m devcluster.hostpackages [venv|images|cluster|tests] [--upgrade]",
            file=sys.stderr,
        )
        return 2
    purpose = purpose_here(purposes[0], os.environ.get("PATH", os.defpath).split(os.pathsep))
    needs = NEEDS[purpose]
    decided = plan(survey(needs), purpose)
    if decided.refusal:
        print(decided.refusal, file=sys.stderr)
        return 1
    if not decided.install:
        return 0
    from devcluster import apt  # noqa: PLC0415 - slow, and not needed when nothing is missing

    try:
        apt.install(decided.install, upgrading=upgrading, again=f"{COMMANDS[purpose]} UPGRADE=1")
    except apt.AptError as error:
        print(error, file=sys.stderr)
        return 1
    importlib.invalidate_caches()
    still = survey(needs).missing
    if still:
        names = ", ".join(need.name for need in still)
        print(f"apt-get succeeded, but this machine still lacks {names}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
