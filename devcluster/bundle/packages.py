"""Python packages for the machine with the GPU: the locked ones of all parts, those of the tests, and ours.

They are installed here, for the version of Python on that machine, which needs neither pip nor a network.
"""

import re
import sys
from pathlib import Path
from typing import Final

from devcluster.commands import output
from devcluster.errors import ClusterError
from devcluster.paths import CHECKOUT

PARTS: Final = ("booking", "deviceplugin", "extender")
"""Images whose locks are packed."""
TESTING: Final = (
    *("pytest", "pytest-randomly", "pytest-timeout", "pytest-xdist", "hypothesis"),
    *("execnet", "iniconfig", "packaging", "pluggy", "pygments", "sortedcontainers"),
)
"""The packages that run tests/gpu, from the lock for development, with their dependencies."""
LIBC: Final = "manylinux_2_28"
"""The oldest C library that packages may ask for: that of Debian 11 and Ubuntu 20.04 is newer."""

_VERSION: Final = re.compile(r"3\.\d+")
_ENTRY: Final = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==.*(?:\n .*)*", re.MULTILINE)


def install(folder: Path, *, python: str, machine: str) -> None:
    """Fill a folder with all packages for a version of Python.

    Args:
        folder: of the packages; it exists.
        python: as ``3.12``.
        machine: as ``uname -m`` prints it.

    Raises:
        ClusterError: there is no such version, or a package cannot be installed for it.
    """
    if not _VERSION.fullmatch(python):
        raise ClusterError(f"{python!r} is not a version of Python: it must be like 3.12.")
    parent = folder.parent
    testing = parent / "testing.txt"
    testing.write_text(chosen(CHECKOUT.joinpath("requirements/dev.txt").read_text(), TESTING))
    locks = [*(CHECKOUT / "requirements" / f"{part}.txt" for part in PARTS), testing]
    target = ("--target", str(folder), "--python-version", python, "--python-platform", f"{machine}-{LIBC}")
    tool = (str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", *target)
    output(
        [*tool, "--only-binary", ":all:", "--require-hashes", *(f"--requirements={lock}" for lock in locks)]
    )
    output([*tool, "--no-deps", str(_wheel(parent))])


def chosen(lock: str, names: tuple[str, ...]) -> str:
    """The entries of a lock that have these names.

    Raises:
        ClusterError: one of them is not in it.
    """
    entries = {found["name"].lower(): found[0] for found in _ENTRY.finditer(lock)}
    if missing := sorted(set(names) - entries.keys()):
        raise ClusterError(f"requirements/dev.txt has no {', '.join(missing)}.")
    return "".join(f"{entries[name]}\n" for name in names)


def _wheel(folder: Path) -> Path:
    """Our own wheel, built from the checkout."""
    made = folder / "wheel"
    build = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(made))
    output(["env", "-C", str(CHECKOUT), *build])
    return next(made.glob("*.whl"))
