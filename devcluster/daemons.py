"""One process of a cluster, by name: what is known about it, and what can be done to it."""

import signal
from dataclasses import dataclass
from pathlib import Path

from devcluster.cgroups import CgroupTree
from devcluster.control import Control, Process
from devcluster.errors import ClusterError
from devcluster.namespaces import host_pid
from devcluster.procstat import STATE, fields_of
from devcluster.wait import poll

_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Daemon:
    """A process that runs, or ran, in a cluster under a name."""

    name: str
    mark: str
    control: Control
    tree: CgroupTree

    @property
    def pid(self) -> int:
        """The daemon's PID on the host; ClusterError if it has ended."""
        inner = self._process().pid
        candidates = self.tree.processes(self.mark)
        found = host_pid(inner, init=self.control.host_pid(), candidates=candidates)
        if found is None or self.exited is not None:
            raise ClusterError(f"{self.name} does not run: it ended with {self.exited}.")
        return found

    @property
    def exited(self) -> int | None:
        """How it ended: its exit code, -N after signal N; None while it runs."""
        return self._process().exited

    @property
    def is_stopped(self) -> bool:
        """Whether it is paused (SIGSTOP)."""
        fields = fields_of(self.pid)
        return fields is not None and fields[STATE] == "T"

    @property
    def restarted(self) -> int:
        """How often it was restarted after it ended by itself, since it was last started on request."""
        return self._process().restarted

    @property
    def log(self) -> Path:
        """What it printed, over all its runs."""
        return Path(self._process().request.log)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal, unless it has ended; after SIGKILL, wait until it has ended."""
        self._process()
        self.control.signal(self.name, number)
        if number == signal.SIGKILL and not poll(self._has_ended, seconds=_SECONDS, every=0.01):
            raise ClusterError(f"{self.name} does not end.")

    def pause(self) -> None:
        """Pause it (SIGSTOP), as if its machine hung."""
        self.kill(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused daemon continue (SIGCONT)."""
        self.kill(signal.SIGCONT)

    def restart(self) -> None:
        """Kill it if it runs, and start it again with the same command line."""
        self.kill()
        self.control.start_again(self.name)

    def _has_ended(self) -> bool:
        return self.exited is not None

    def _process(self) -> Process:
        processes = self.control.processes()
        if self.name not in processes:
            known = ", ".join(sorted(processes))
            raise ClusterError(f"There is no {self.name} in this cluster; there are {known}.")
        return processes[self.name]
