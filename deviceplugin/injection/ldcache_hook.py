"""A hook by which a container's loader finds the driver's libraries, whatever its image's distribution is.

Used by ``cdi``. Libraries are mounted at the host's path, which an image of another distribution does not
search. Before the container starts, the runtime runs the host's ``ldconfig`` inside the container's root
(``-r`` is a chroot: no link of an image leads out of it), which puts the folders into the loader's cache. It
creates no links (``-X``), and a container starts even if it fails, or is not run for want of ``/etc``.

A shell of the host runs it, so no program of ours has to be installed on the node. There is no hook if the
host has no shell, or its files cannot be seen.

Sources: Open Container Initiative runtime specification 1.2 (``createContainer``, state on standard input);
Container Device Interface specification 0.6.0; ldconfig(8) of glibc 2.36.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from cluster import names
from deviceplugin.injection.driver import Mount

SHELL: Final = "/bin/sh"
LOADERS: Final = ("/sbin/ldconfig.real", "/sbin/ldconfig")
"""Ubuntu's ``ldconfig`` is a script for packages, with the program next to it."""

_SCRIPT: Final = """\
IFS= read -r state
bundle=${state#*'"bundle":"'}
[ "$bundle" != "$state" ] || exit 0
bundle=${bundle%%'"'*}
root=$bundle/rootfs
if [ ! -d "$root" ]; then
    IFS= read -r config < "$bundle/config.json"
    root=${config#*'"root":{"path":"'}
    root=${root%%'"'*}
fi
loader=$1
shift
[ -d "$root/etc" ] && "$loader" -X -r "$root" "$@" > /dev/null 2>&1
exit 0
"""
"""Both texts are one line each; text that users can choose comes after it, or has its quotes escaped."""


def hooks(mounts: Iterable[Mount], *, root: Path, host_root: Path) -> list[dict[str, Any]]:
    """The hook for these mounts, in the form of a CDI specification; none if the host cannot run it.

    Args:
        mounts: the driver's files.
        root: the driver's root, as this process sees it.
        host_root: the same folder, as the container runtime sees it, which runs the host's own programs.
    """
    folders = sorted({str(Path(mount.container_path).parent) for mount in mounts if _is_library(mount)})
    if not folders or host_root != Path("/") or not _is_there(root, SHELL):
        return []
    loader = next((path for path in LOADERS if _is_there(root, path)), None)
    if loader is None:
        return []
    arguments = ["sh", "-c", _SCRIPT, names.LDCACHE_HOOK, loader, *folders]
    return [{"hookName": "createContainer", "path": SHELL, "args": arguments}]


def _is_library(mount: Mount) -> bool:
    return ".so" in Path(mount.container_path).name


def _is_there(root: Path, path: str) -> bool:
    """Whether the path exists, also as a link: where that leads differs between us and the host."""
    return os.path.lexists(root / path.lstrip("/"))
