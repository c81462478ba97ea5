"""One owner per cluster name: a file lock, held from start to stop or until the owner's process ends."""

import fcntl
import os
from pathlib import Path
from typing import TextIO

from devcluster.failure import ClusterError
from devcluster.places import make_root


class Ownership:
    """The lock of a cluster's name; ClusterError where another process has it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = self._acquire()

    def _acquire(self) -> TextIO:
        while True:
            try:
                make_root(self._path.parent)
                stream = self._path.open("a+")
            except FileNotFoundError:
                continue  # the last owner of all removed the folder meanwhile
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                stream.seek(0)
                owner = stream.read().strip() or "another process"
                stream.close()
                raise ClusterError(
                    f"Cluster {self._path.stem} is in use by {owner}: end that first, or take another name."
                ) from None
            if self._is_current(stream):
                stream.truncate(0)
                stream.write(f"process {os.getpid()} ({_command_line()})")
                stream.flush()
                return stream
            stream.close()  # the last owner removed this file while it was being opened

    def _is_current(self, stream: TextIO) -> bool:
        try:
            return os.path.samestat(os.fstat(stream.fileno()), self._path.stat())
        except FileNotFoundError:
            return False

    def release(self, *, remove: bool) -> None:
        """Let go; remove the file where the cluster is gone."""
        if self._file is not None:
            if remove:
                self._path.unlink(missing_ok=True)
            self._file.close()
            self._file = None


def _command_line() -> str:
    words = Path("/proc/self/cmdline").read_bytes().decode(errors="replace").split("\0")
    return " ".join(words).strip()[:100]
