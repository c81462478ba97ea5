"""Commands and libraries of this machine that the other one may lack; they are removed after the run."""

import re
import shutil
from pathlib import Path
from typing import Final

from devcluster.commands import output

COMMANDS: Final = ("ip", "nft", "openssl")
"""What a cluster needs and a small system lacks; the others are in every Linux."""
_EVERYWHERE: Final = re.compile(r"(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|resolv))\.so\.\d+")
_FOUND: Final = re.compile(r"^\s*(?P<name>\S+) => (?P<path>/\S+) ", re.MULTILINE)


def contents(runc: Path) -> dict[str, Path]:
    """Place in the bundle -> file of this machine.

    Args:
        runc: the cluster's own; its libraries are needed, too.
    """
    commands = {name: Path(found).resolve() for name in COMMANDS if (found := shutil.which(name))}
    libraries = {lib.name: lib for program in (*commands.values(), runc) for lib in libraries_of(program)}
    return {
        **{f"lent/bin/{name}": path for name, path in commands.items()},
        **{f"lent/lib/{name}": path.resolve() for name, path in libraries.items()},
    }


def libraries_of(program: Path) -> tuple[Path, ...]:
    """The libraries that a program is linked with, by the names it asks for; not those of the C library."""
    listing = output(["ldd", program])
    found = ((match["name"], Path(match["path"])) for match in _FOUND.finditer(listing))
    return tuple(path.with_name(name) for name, path in found if not _EVERYWHERE.fullmatch(name))
