"""A running cluster: its plan and its PID 1, and the operations that boot, faults and callers share."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster import namespaces
from devcluster.cgroups import CgroupTree
from devcluster.commands import output
from devcluster.components import containerd
from devcluster.control import Control
from devcluster.daemons import Daemon
from devcluster.errors import ClusterError
from devcluster.plan import NodePlan, Plan


@dataclass(frozen=True, slots=True)
class ClusterHandle:
    """A plan whose namespaces exist."""

    plan: Plan
    tree: CgroupTree

    @property
    def control(self) -> Control:
        """The cluster's PID 1."""
        return Control(self.plan.paths.control)

    def node(self, name: str) -> NodePlan:
        """A node by name; ClusterError if there is none of that name."""
        for node in self.plan.nodes:
            if node.name == name:
                return node
        names = ", ".join(node.name for node in self.plan.nodes)
        raise ClusterError(f"There is no node {name} in cluster {self.plan.spec.name}; there are {names}.")

    def start(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        node: str | None = None,
        restarted_always: bool = False,
    ) -> Daemon:
        """Start a process; on a node its name is prefixed with the node's (`node-a/kubelet`)."""
        full = name if node is None or name.startswith(f"{node}/") else f"{node}/{name}"
        program = shutil.which(argv[0])
        if program is None:
            raise ClusterError(f"Cannot start {full}: there is no program {argv[0]}.")
        log = self.plan.paths.logs / f"{full}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        if node is not None:
            self.node(node)
        self.control.start(
            full,
            [str(Path(program).absolute()), *argv[1:]],
            env=env or self.environment,
            log=log,
            node=node,
            restarted_always=restarted_always,
        )
        return self.daemon(full)

    def daemon(self, name: str) -> Daemon:
        """A process by its full name; whether there is one is not checked."""
        return Daemon(name=name, mark=self.plan.paths.mark, control=self.control, tree=self.tree)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the cluster's own daemons."""
        return {"PATH": self.plan.search_path, "LANG": "C.UTF-8", "HOME": "/root"}

    def enter(self, node: NodePlan) -> list[str]:
        """The beginning of a command line that runs in a node, as a child of the caller."""
        return namespaces.enter_node(self.control.node_namespace(node.name), self.control.host_pid())

    def import_image(self, node: NodePlan, tar: Path) -> None:
        """Import an image from an OCI or Docker archive on a node."""
        output([*self.enter(node), *containerd.import_command(node, tar)])

    def containerd_answers(self, node: NodePlan) -> bool:
        """Whether a node's containerd answers requests."""
        ask = [*self.enter(node), *containerd.ask_command(node)]
        return subprocess.run(ask, capture_output=True, check=False).returncode == 0
