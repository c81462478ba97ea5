"""The requirements of a cluster's start, each with a message that says how to get it."""

import os
import sys
from pathlib import Path

from cluster.process.clock import SystemClock
from devcluster import binaries, versions
from devcluster import images as image_archives
from devcluster.binaries.pins import OLDER
from devcluster.commands import missing
from devcluster.errors import ClusterError
from devcluster.paths import CHECKOUT, PRIVATE_TO_NODES
from devcluster.plan import Programs
from devcluster.spec import ClusterSpec


def check() -> None:
    """ClusterError if this machine or this user cannot run a cluster."""
    check_user()
    if lacking := missing():
        packages = " ".join(sorted(set(lacking.values())))
        raise ClusterError(
            f"These commands are missing: {', '.join(sorted(lacking))}. "
            f"On Debian and Ubuntu: apt-get install {packages}"
        )
    for what, path in {"The checkout": CHECKOUT, "Python": Path(sys.prefix).resolve()}.items():
        _visible_on_nodes(what, path)


def check_user() -> None:
    """ClusterError if this user may not do what a cluster needs."""
    if os.geteuid() != 0:
        raise ClusterError("A cluster needs root: it makes namespaces, mounts and control groups. Try sudo.")


def programs(spec: ClusterSpec) -> Programs:
    """The cluster's binaries, built first if they are missing; kubectl is always the newest."""
    report = binaries.ProgressLine(sys.stderr, SystemClock())
    built = binaries.ensure(report)
    _visible_on_nodes("The folder of the binaries", built.root)
    paths = {name: str(built.path(name)) for name in binaries.NAMES}
    for minor in sorted({spec.kubernetes, *(node.kubernetes for node in spec.nodes)} - {""}):
        paths[versions.program(minor)] = str(binaries.ensure_tool(OLDER[minor], report) / "kubebox")
    if spec.kubernetes:
        paths["kubebox"] = paths[versions.program(spec.kubernetes)]
    return Programs(paths)


def images() -> tuple[Path, ...]:
    """Archives of the images that every node gets, built first if they are missing."""
    return tuple(
        image.tar for image in image_archives.ensure(binaries.ProgressLine(sys.stderr, SystemClock()))
    )


def _visible_on_nodes(what: str, path: Path) -> None:
    for folder in PRIVATE_TO_NODES:
        if path.is_relative_to(folder):
            raise ClusterError(
                f"{what} cannot lie in {path}: nodes see an empty {folder} of their own. Move it elsewhere."
            )
