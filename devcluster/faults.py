"""Faults of single processes and of whole nodes, by name: signals and restarts."""

import contextlib
import os
import signal
from collections.abc import Collection
from dataclasses import dataclass

from devcluster.daemons import Daemon
from devcluster.errors import ClusterError
from devcluster.handle import ClusterHandle
from devcluster.namespaces import namespace_of, namespace_of_file
from devcluster.plan import NodePlan
from devcluster.wait import poll

_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Faults:
    """What can be done to the processes of a running cluster."""

    running: ClusterHandle

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a process, or to every process on a node: daemons, shims and pods."""
        node = self._node(name)
        if node is None:
            self.running.daemon(name).kill(number)
            return
        for pid in self._pids(node):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def restart(self, name: str, *, late: Collection[str] = ()) -> None:
        """Kill a process, or everything on a node, and start it again.

        A node's daemons start in the order of their first start, those after containerd once it answers;
        those in `late` are not started.
        """
        node = self._node(name)
        if node is None:
            self.running.daemon(name).restart()
            return
        daemons = self._daemons(node)
        if not poll(lambda: self._all_killed(node), seconds=_SECONDS):
            raise ClusterError(f"Processes of {name} do not end.")
        for daemon in (one for one in daemons if one.name not in late):
            daemon.restart()
            if daemon.name.endswith("/containerd"):
                poll(lambda: self.running.containerd_answers(node), seconds=_SECONDS)

    def _node(self, name: str) -> NodePlan | None:
        return next((node for node in self.running.plan.nodes if node.name == name), None)

    def _daemons(self, node: NodePlan) -> list[Daemon]:
        """The node's daemons, in the order in which they were first started."""
        processes = self.running.control.processes()
        return [self.running.daemon(name) for name in processes if processes[name].request.node == node.name]

    def _all_killed(self, node: NodePlan) -> bool:
        self.signal(node.name, signal.SIGKILL)
        return not self._pids(node)

    def _pids(self, node: NodePlan) -> set[int]:
        """PIDs of every process in the node's mount namespace, and of its pods' processes."""
        tree, mark = self.running.tree, self.running.plan.paths.mark
        mounts = namespace_of_file(self.running.control.node_namespace(node.name))
        own = {pid for pid in tree.processes(mark) if namespace_of(pid, "mnt") == mounts}
        return own | tree.node_processes(mark, node.name)
