"""The kernel's record of a process: its cgroup, name and start time. Read by pid below ``/proc``.

The agent must be in the node's PID namespace: from another one NVML lists no process at all.
"""

from pathlib import Path
from typing import Final

from deviceplugin.usage.cgroups import LiveProcess, owner_of

_LONGEST: Final = 65536
_OURS: Final = ("deviceplugin", "/pause")
"""Names of the first process of a pod: the agent, or the process that holds a namespace shared in the pod."""
_NAME_ENDS: Final = ")"
_STARTED: Final = 19
"""Index of the start time among the fields of ``/proc/PID/stat`` after the name: it is field 22."""


class Processes:
    """The processes of this node."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc

    def are_the_nodes(self) -> bool:
        """Whether we are in the node's PID namespace: in our own one, the first process is ourselves."""
        try:
            first = _text(self._proc / "1" / "cmdline")
        except OSError:
            return False
        return not any(name in first for name in _OURS)

    def see(self, pid: int) -> LiveProcess | None:
        """The process; None if it has ended or may not be read."""
        folder = self._proc / str(pid)
        try:
            before = _stat(folder)
            cgroup = _text(folder / "cgroup")
            after = _stat(folder)
        except (OSError, ValueError):
            return None
        # The pid may be another process's by now.
        if before != after:
            return None
        command, started = before
        return LiveProcess(pid, started, command, owner_of(cgroup))


def _stat(folder: Path) -> tuple[str, str]:
    """Name and start time. The name is in brackets, and may have brackets and spaces itself.

    Raises:
        OSError: there is no such process.
        ValueError: the file does not have the kernel's form.
    """
    name, ends, rest = _text(folder / "stat").rpartition(_NAME_ENDS)
    fields = rest.split()
    if not ends or len(fields) <= _STARTED:
        raise ValueError(str(folder))
    return _printable(name.partition("(")[2]), fields[_STARTED]


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_LONGEST).decode(errors="replace")


def _printable(text: str) -> str:
    """A name without unprintable characters: a process may call itself anything."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
