"""Limits of the machine that all clusters of a user use up together.

The first to be reached is `fs.inotify.max_user_instances`: 128 by default, of which a cluster of two nodes
takes 22. Beyond it a kubelet ends with `inotify_init: too many open files`, long after the start and far from
the cause, so a start checks the limits first. It raises a limit that leaves room for fewer than `AT_ONCE`
clusters. If that is not possible and there is no room for a single one, it refuses.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from devcluster.addresses import LINKS, SLOTS
from devcluster.errors import ClusterError

Report = Callable[[str], None]
PROC: Final = Path("/proc")
GROUPS_OF_PROCESSES: Final = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/pids"))
"""The top control group of this machine or container that counts processes: version 2, version 1."""
AT_ONCE: Final = 8
"""Number of clusters for which a start makes room: parallel runs, and clusters that were left behind."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of the kernel.

    Args:
        name: as sysctl calls it; in words for a limit that cannot be changed.
        cluster: how much of it a cluster of two nodes with some pods takes, measured (docs/testing.md) and
            rounded up.
        raised: the value that it is raised to; 0 if it cannot be raised.
    """

    name: str
    cluster: int
    raised: int


@dataclass(frozen=True, slots=True)
class State:
    """A limit on this machine: its value, and how much of it is in use now."""

    limit: Limit
    value: int
    used: int

    @property
    def clusters(self) -> int:
        """How many clusters there is room for."""
        return max(0, self.value - self.used) // self.limit.cluster

    @property
    def is_short(self) -> bool:
        """Whether a start should raise it."""
        return self.clusters < AT_ONCE and self.value < self.limit.raised

    @property
    def refusal(self) -> str:
        """Why no cluster can be started; empty if one can."""
        if self.clusters:
            return ""
        name, one = self.limit.name, self.limit.cluster
        text = (
            f"There is no room for a cluster: of {name} = {self.value} there are {self.used} in use,"
            f" and a cluster takes {one}."
        )
        if self.limit.raised > self.value:
            text += f" Raise it as root: `sysctl -w {name}={self.limit.raised}`."
        return f"{text} `.venv/bin/python -m devcluster status` lists the clusters that run here."


INSTANCES: Final = Limit("fs.inotify.max_user_instances", 22, 8192)
WATCHES: Final = Limit("fs.inotify.max_user_watches", 1000, 524_288)
THREADS: Final = Limit("kernel.pid_max", 1000, 4_194_304)
ALL_THREADS: Final = Limit("kernel.threads-max", 1000, 4_194_304)
PROCESSES: Final = Limit("pids.max of this container", 1000, 0)
KEYS: Final = Limit("kernel.keys.root_maxkeys", 100, 1_000_000)
FILES: Final = Limit("fs.file-max", 5000, 1_000_000)
GROUPS: Final = Limit("memory control groups", 100, 0)
ADDRESSES: Final = Limit("slots for addresses", 1, 0)
GROUPS_AT_MOST: Final = 65_535
"""The kernel numbers memory's control groups with 16 bits."""
_LINK: Final = re.compile(rf"^\s*{LINKS}\d+:", re.MULTILINE)
"""The host's end of a cluster's network (``Addresses.interface``), as in /proc/net/dev."""


def make_room(states: Sequence[State], write: Callable[[Limit], int], report: Report) -> None:
    """Raise the limits that are short.

    Args:
        states: of every limit.
        write: raises a limit, and returns the value that it has afterwards.
        report: called for each limit that was raised.

    Raises:
        ClusterError: there is no room for a cluster, and none could be made.
    """
    for state in states:
        now = state
        if state.is_short:
            now = State(state.limit, write(state.limit), state.used)
            if now.value > state.value:
                report(f"raised {state.limit.name} from {state.value} to {now.value} on this machine")
        if now.refusal:
            raise ClusterError(now.refusal)


def ensure(report: Report) -> None:
    """Make room for a cluster under this machine's limits, as ``make_room`` does."""
    make_room(survey(), _raise, report)


def in_use() -> list[str]:
    """Every limit of this machine and its use, in a few words each."""
    return [f"{s.limit.name} {s.used} of {s.value}" for s in survey()]


def survey(proc: Path = PROC, groups: Iterable[Path] = GROUPS_OF_PROCESSES) -> tuple[State, ...]:
    """Every limit of this machine; one that this kernel does not have is left out."""
    return (*_surveyed(proc), *_processes(groups))


def _surveyed(proc: Path) -> Iterator[State]:
    instances, watches = _inotify(proc)
    threads = partial(_threads, proc / "loadavg")
    used: tuple[tuple[Limit, Callable[[], int]], ...] = (
        (INSTANCES, lambda: instances),
        (WATCHES, lambda: watches),
        (THREADS, threads),
        (ALL_THREADS, threads),
        (KEYS, lambda: _keys((proc / "key-users").read_text().splitlines())),
        (FILES, lambda: int((proc / "sys/fs/file-nr").read_text().split()[0])),
    )
    for limit, count in used:
        with contextlib.suppress(OSError):
            yield State(limit, int(_file(limit, proc).read_text()), count())
    with contextlib.suppress(OSError):
        yield State(GROUPS, GROUPS_AT_MOST, _groups((proc / "cgroups").read_text().splitlines()))
    with contextlib.suppress(OSError):
        yield State(ADDRESSES, SLOTS, len(_LINK.findall((proc / "net/dev").read_text())))


def _processes(groups: Iterable[Path]) -> Iterator[State]:
    """Threads of all processes in the group that contains every cluster's groups, if they are limited."""
    for group in groups:
        with contextlib.suppress(OSError, ValueError):  # "max" is not a number
            yield State(
                PROCESSES,
                int((group / "pids.max").read_text()),
                int((group / "pids.current").read_text()),
            )


def _threads(loadavg: Path) -> int:
    """The number of all threads, from /proc/loadavg: three loads, running/all, the newest PID."""
    return int(loadavg.read_text().split()[3].partition("/")[2])


def _raise(limit: Limit) -> int:
    file = _file(limit, PROC)
    with contextlib.suppress(OSError):  # a container may not
        file.write_text(f"{limit.raised}\n")
    return int(file.read_text())


def _file(limit: Limit, proc: Path) -> Path:
    return proc.joinpath("sys", *limit.name.split("."))


def _inotify(proc: Path) -> tuple[int, int]:
    """Instances and watches of this user's processes; one that several processes share counts for each."""
    instances = watches = 0
    for process in proc.iterdir():
        with contextlib.suppress(OSError):  # it has ended
            if process.name.isdigit() and process.stat().st_uid == os.geteuid():
                for entry in (process / "fd").iterdir():
                    if str(entry.readlink()) == "anon_inode:inotify":
                        instances += 1
                        information = process / "fdinfo" / entry.name
                        watches += information.read_text().count("inotify wd:")
    return instances, watches


def _keys(lines: Iterable[str]) -> int:
    """Root's keys, from /proc/key-users: user, usage, keys, quota of keys, quota of bytes."""
    for line in lines:
        user, _, rest = line.partition(":")
        if user.strip() == "0":
            return int(rest.split()[2].partition("/")[0])
    return 0


def _groups(lines: Iterable[str]) -> int:
    """Memory's control groups, from /proc/cgroups: subsystem, hierarchy, number, enabled."""
    return next((int(line.split()[2]) for line in lines if line.startswith("memory\t")), 0)
