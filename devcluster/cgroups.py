"""Control groups of a cluster, on hosts with version 1 (one tree per controller) and version 2 (one tree).

A cluster has one group for all its daemons, by which they are found whatever happened to the cluster's files,
and one group per node, which that node's kubelet manages. `mark` is the name of the first; the others are
called `mark.NODE`.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from cluster import names
from devcluster.errors import ClusterError

_ROOT = Path("/sys/fs/cgroup")
_PROCESSES = "cgroup.procs"
_CONTROLLERS = "cgroup.controllers"
_SUBTREE_CONTROL = "cgroup.subtree_control"
_UNIFIED = 2
_MARK = re.compile(rf"{re.escape(names.MARK_PREFIX)}[a-z0-9-]+(@[0-9a-f]{{8}})?")
_NEEDED = {"cpu", "cpuset", "memory", "pids"}  # what a kubelet refuses to start without


class CgroupTree:
    """The host's control groups below one folder."""

    def __init__(self, root: Path = _ROOT) -> None:
        self.root = root

    @property
    def version(self) -> int:
        """1 (on hybrid hosts, too) or 2."""
        return _UNIFIED if (self.root / _CONTROLLERS).exists() else 1

    @property
    def hierarchies(self) -> list[Path]:
        """The top folder of every tree in which groups are made."""
        if self.version == _UNIFIED:
            return [self.root]
        return sorted(
            folder.parent for folder in self.root.glob(f"*/{_PROCESSES}") if not folder.parent.is_symlink()
        )

    def make_for_processes(self, mark: str) -> Path:
        """Make the group of the cluster's daemons. Returns the file into which a process writes its PID.

        Raises ClusterError if no control groups are mounted, or the group cannot be made.
        """
        hierarchies = self.hierarchies
        if not hierarchies:
            raise ClusterError(f"No control groups are mounted at {self.root}; kubelet and runc need them.")
        pids = self.root / "pids"
        group = (pids if pids in hierarchies else hierarchies[0]) / mark
        try:
            group.mkdir(exist_ok=True)
        except OSError as error:
            raise ClusterError(
                f"Cannot make the control group {group}: {error.strerror}. A cluster needs a writable "
                f"{self.root}; in a container, start that one privileged."
            ) from error
        return group / _PROCESSES

    def make_for_node(self, mark: str, node: str) -> str:
        """Make a node's group in every tree. Returns the kubelet's cgroupRoot.

        Raises ClusterError if the group lacks controllers that kubelet and runc need (version 2 only).
        """
        name = f"{mark}.{node}"
        if self.version == _UNIFIED:
            self._make_unified(name)
        else:
            for hierarchy in self.hierarchies:
                _make_separate(hierarchy, name)
        return f"/{name}"

    def _make_unified(self, name: str) -> None:
        group = self.root / name
        _delegate_controllers(self.root)
        group.mkdir(exist_ok=True)
        _delegate_controllers(group)
        lacking = _NEEDED - set((group / _CONTROLLERS).read_text().split())
        if lacking:
            names = ", ".join(sorted(lacking))
            raise ClusterError(
                f"The control group {group} gets no controllers {names}: {self.root} does not hand them "
                "down. In a container, processes must first leave its topmost group."
            )

    def processes(self, mark: str) -> set[int]:
        """PIDs of a cluster's daemons and of its pods' processes."""
        return {pid for group in self._groups(mark) for pid in processes_below(group)}

    def marks(self) -> set[str]:
        """The marks of all clusters that have a group, even if nothing else is known of them."""
        folders = (folder.name for top in self.hierarchies for folder in top.glob(f"{names.MARK_PREFIX}*"))
        return {found[0] for name in folders if (found := _MARK.match(name))}

    def node_processes(self, mark: str, node: str) -> set[int]:
        """PIDs of the processes of a node's pods."""
        return {pid for top in self.hierarchies for pid in processes_below(top / f"{mark}.{node}")}

    def remove(self, mark: str) -> list[Path]:
        """Remove a cluster's groups that have no process any more. Returns the groups that are left."""
        for group in self._groups(mark):
            for folder in sorted(_folders(group), reverse=True):
                with contextlib.suppress(OSError):
                    folder.rmdir()
        return self._groups(mark)

    def _groups(self, mark: str) -> list[Path]:
        return [
            group
            for hierarchy in self.hierarchies
            for group in (hierarchy / mark, *hierarchy.glob(f"{mark}.*"))
            if group.is_dir()
        ]


def processes_below(group: Path) -> set[int]:
    """PIDs in a group and in all groups below it; groups that vanish meanwhile are skipped."""
    found: set[int] = set()
    for folder in _folders(group):
        with contextlib.suppress(OSError):
            found.update(int(pid) for pid in (folder / _PROCESSES).read_text().split())
    # A process of another PID namespace is listed as 0, which kill(2) takes for the caller's process group.
    return {pid for pid in found if pid > 0}


def _folders(group: Path) -> Iterator[Path]:
    # Unlike rglob, os.walk skips folders that vanish meanwhile.
    yield from (Path(folder) for folder, _, _ in os.walk(group))


def _make_separate(hierarchy: Path, name: str) -> None:
    """Version 1: make a group with the processors and memory nodes of its parent; a new group has none."""
    group = hierarchy / name
    group.mkdir(exist_ok=True)
    for file in ("cpuset.mems", "cpuset.cpus"):
        if (hierarchy / file).exists():
            (group / file).write_text((hierarchy / file).read_text())


def _delegate_controllers(group: Path) -> None:
    """Version 2: let groups below this one use every controller that it has itself."""
    for controller in (group / _CONTROLLERS).read_text().split():
        # Some machines cannot delegate some controllers; the caller checks for the needed ones afterwards.
        with contextlib.suppress(OSError):
            (group / _SUBTREE_CONTROL).write_text(f"+{controller}")
