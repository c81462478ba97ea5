"""Removing everything of a cluster, whatever state it is in: the same for a start and a stop."""

import contextlib
import os
import shutil
import signal
from pathlib import Path

from devcluster import network
from devcluster.cgroups import CgroupTree
from devcluster.commands import output
from devcluster.errors import ClusterError
from devcluster.paths import Paths
from devcluster.wait import poll

_SECONDS = 30


def clean(paths: Paths, tree: CgroupTree) -> None:
    """End every process of the cluster, then remove what would outlive them.

    Processes are found by their control group, so this works even if the files are gone, or name PIDs that
    now belong to other processes.
    """
    clean_kernel(paths.mark, tree)
    for mount in reversed(mounts_below(paths.state)):
        output(["umount", "--lazy", mount])
    if paths.state.exists():
        shutil.rmtree(paths.state)
    paths.kubeconfig.unlink(missing_ok=True)
    for folder in (paths.kubeconfig.parent, paths.kept_logs.parent.parent):
        with contextlib.suppress(OSError):
            folder.rmdir()  # only where it is empty


def clean_kernel(mark: str, tree: CgroupTree) -> None:
    """End every process of the cluster with this mark, and remove its control groups and links.

    Raises:
        ClusterError: a process does not end.
    """
    if not poll(lambda: _end(mark, tree), seconds=_SECONDS):
        left = ", ".join(map(str, tree.remove(mark)[:3]))
        raise ClusterError(f"Processes of {mark} do not end within {_SECONDS} s: see {left}.")
    network.remove(mark)


def keep_logs(paths: Paths) -> Path | None:
    """Copy a cluster's logs to where they outlive it. Returns that folder; None if there are no logs."""
    if not paths.logs.exists():
        return None
    shutil.rmtree(paths.kept_logs, ignore_errors=True)
    shutil.copytree(paths.logs, paths.kept_logs)
    return paths.kept_logs


def mounts_below(folder: Path) -> list[str]:
    """Mount points of the host in a folder, outermost first."""
    points = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    names = [point.encode().decode("unicode_escape") for point in points]
    return [name for name in names if Path(name).is_relative_to(folder)]


def _end(mark: str, tree: CgroupTree) -> bool:
    """Kill every process that still runs. Returns whether no control group is left."""
    for pid in tree.processes(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return not tree.remove(mark)
