"""A small Debian to build on where no base image can be pulled: mmdebstrap makes it of Debian's packages."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from devcluster.binaries.errors import BuildError
from devcluster.hostpackages import SYSTEM_FOLDERS

SUITE: Final = "bookworm"
PACKAGES: Final = ("ca-certificates", "libpython3-stdlib", "python3-minimal", "tzdata")
LEFT_OUT: Final = ("/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/man/*")


def recipe() -> list[str]:
    """The command without the file that it writes."""
    excluded = [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
    return ["mmdebstrap", "--mode=root", "--variant=apt", f"--include={','.join(PACKAGES)}", *excluded, SUITE]


def make(tar: Path, environment: Mapping[str, str]) -> None:
    """Write the root file system of a base image.

    Args:
        tar: the archive to write.
        environment: of the command, with the PATH on which it is looked for.

    Raises:
        BuildError: mmdebstrap is missing, or it failed, in its own words.
    """
    path = ":".join((environment.get("PATH", ""), *SYSTEM_FOLDERS))
    run([*recipe(), str(tar)], {**environment, "PATH": path}, what="Making the base image")


def run(command: list[str], environment: Mapping[str, str], *, what: str, folder: Path | None = None) -> str:
    """Run a builder's command to its end. Returns what it printed.

    Raises:
        BuildError: it is missing, or it failed: with the last lines that it wrote.
    """
    try:
        done = subprocess.run(
            command, env=dict(environment), cwd=folder, text=True, capture_output=True, check=False
        )
    except FileNotFoundError as error:
        raise BuildError(
            f"{what} needs `{command[0]}`, which is not there: `make host` installs it."
        ) from error
    if done.returncode:
        tail = "\n".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-20:])
        raise BuildError(f"{what} failed: `{' '.join(command)}` ended with {done.returncode}:\n{tail}")
    return done.stdout
