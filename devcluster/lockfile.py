"""One owner per cluster: a file lock, held from start to stop or until the owner's process ends.

The file names the owner and the folder of the cluster's state, so that every cluster of a machine can be
found, whichever checkout started it.
"""

import fcntl
import os
from pathlib import Path
from typing import TextIO

import msgspec

from devcluster.errors import ClusterError
from devcluster.paths import Paths, make_root
from devcluster.procstat import BORN, STATE, fields_of


class Owner(msgspec.Struct, frozen=True):
    """The process that has started a cluster.

    Args:
        name: of the cluster.
        root: folder in which its state lies.
        process: the owner's PID.
        born: when that process was started, in ticks since boot: PIDs are reused.
        command: the owner's command line, shortened.
        kept: whether the owner has released the cluster, which then outlives it.
    """

    name: str
    root: str
    process: int
    born: int
    command: str
    kept: bool = False

    @property
    def lives(self) -> bool:
        """Whether the owner's process still runs."""
        return self.born == _born(self.process)

    def __str__(self) -> str:
        """The process and its command, for messages."""
        return f"process {self.process} ({self.command})"


def owner_of(lock: Path) -> Owner | None:
    """The owner that a lock's file names; None if there is no file, or its content cannot be read."""
    try:
        return msgspec.json.decode(lock.read_bytes(), type=Owner)
    except (OSError, msgspec.DecodeError):
        return None


class InUseError(ClusterError):
    """Another process holds the cluster's lock."""


class Lockfile:
    """The lock of a cluster, held from here on; InUseError if another process holds it."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._path = paths.lock
        self._file: TextIO | None = self._acquire()

    def _acquire(self) -> TextIO:
        while True:
            try:
                make_root(self._paths.root)
                make_root(self._path.parent)
                stream = self._path.open("a+")
            except FileNotFoundError:
                continue  # another process removed the empty folder meanwhile
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                stream.close()
                owner = owner_of(self._path) or "another process"
                raise InUseError(
                    f"Cluster {self._paths.name} is in use by {owner}: end that first, or take another name."
                ) from None
            if self._is_current(stream):
                self._write(stream, kept=False)
                return stream
            stream.close()  # the last owner removed this file while it was being opened

    def _write(self, stream: TextIO, *, kept: bool) -> None:
        process = os.getpid()
        name, root = self._paths.name, str(self._paths.root)
        owner = Owner(name, root, process, _born(process) or 0, _command_line(), kept)
        stream.seek(0)
        stream.truncate(0)
        stream.write(msgspec.json.encode(owner).decode())
        stream.flush()

    def _is_current(self, stream: TextIO) -> bool:
        try:
            return os.path.samestat(os.fstat(stream.fileno()), self._path.stat())
        except FileNotFoundError:
            return False

    def release(self, *, remove: bool) -> None:
        """Release the lock: remove its file if the cluster is gone, else mark the cluster there as kept."""
        if self._file is not None:
            if remove:
                self._path.unlink(missing_ok=True)
            else:
                self._write(self._file, kept=True)
            self._file.close()
            self._file = None


def _born(process: int) -> int | None:
    """When a process was started, in ticks since boot; None if it has ended."""
    fields = fields_of(process)
    return None if fields is None or fields[STATE] == "Z" else int(fields[BORN])


def _command_line() -> str:
    words = Path("/proc/self/cmdline").read_bytes().decode(errors="replace").split("\0")
    return " ".join(" ".join(words).split())[:100]  # in one line: a program for `python -c` may have many
