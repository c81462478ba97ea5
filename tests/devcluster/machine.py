"""The state of a machine, so that a test can check that a cluster left nothing on it.

Other clusters may come and go meanwhile, so whatever carries the name of another one is left out.
"""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cluster import names
from devcluster.addresses import LINKS
from devcluster.cgroups import CgroupTree
from devcluster.procstat import BORN, STATE, fields_of

_KINDS = ("net", "mnt", "pid", "ipc", "uts")


@dataclass(frozen=True)
class Machine:
    """Everything that a cluster could leave behind, outside its own folders."""

    mounts: frozenset[str]
    links: frozenset[str]
    routes: frozenset[str]
    rules: str
    forwarding: str
    cgroups: frozenset[str]

    @classmethod
    def now(cls, mark: str) -> "Machine":
        """The machine at this moment; `mark` is the one cluster that is examined."""
        return cls(
            mounts=_lines(Path("/proc/self/mounts").read_text()),
            links=_without_other_links(_printed("ip", "-oneline", "link")),
            routes=_without_other_links(_printed("ip", "-oneline", "route", "show", "table", "all")),
            rules=_printed("nft", "list", "ruleset"),
            forwarding=Path("/proc/sys/net/ipv4/ip_forward").read_text(),
            cgroups=_cgroups(mark),
        )


@dataclass(frozen=True)
class Process:
    """A process by PID and the moment of its start, because PIDs are reused."""

    pid: int
    started: str


def processes_like(pid: int) -> frozenset[Process]:
    """Every process that shares a namespace with this one, which is in a cluster."""
    namespaces = _namespaces_of(pid)
    return frozenset(process for process in _processes() if namespaces & _namespaces_of(process.pid))


def alive(processes: frozenset[Process]) -> frozenset[Process]:
    """The processes of these that have not ended."""
    return processes & frozenset(_processes())


def _processes() -> Iterator[Process]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            fields = fields_of(folder.name)
            if fields is not None and fields[STATE] != "Z":
                yield Process(int(folder.name), fields[BORN])


def _namespaces_of(pid: int) -> frozenset[str]:
    try:
        return frozenset(str(Path(f"/proc/{pid}/ns/{kind}").readlink()) for kind in _KINDS)
    except OSError:
        return frozenset()


def _cgroups(mark: str) -> frozenset[str]:
    groups = (folder for top in CgroupTree().hierarchies for folder in top.iterdir() if folder.is_dir())
    return frozenset(str(group) for group in groups if _is_of(mark, group.name))


def _is_of(mark: str, group: str) -> bool:
    """Whether a control group is this cluster's, or no cluster's at all."""
    return not group.startswith(names.MARK_PREFIX) or group == mark or group.startswith(f"{mark}.")


def _without_other_links(text: str) -> frozenset[str]:
    """Lines without those of clusters' links; whether ours is gone is checked by its address."""
    return frozenset(line for line in _lines(text) if LINKS not in line)


def _lines(text: str) -> frozenset[str]:
    return frozenset(text.splitlines())


def _printed(*argv: str) -> str:
    return subprocess.run(argv, text=True, capture_output=True, check=True).stdout
