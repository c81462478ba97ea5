"""Bringing a cluster up, step by step: files, namespaces, network, daemons, until every node is Ready."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from devcluster import kubeconfig, namespaces, network, pki
from devcluster.api import Api
from devcluster.components import (
    apiserver,
    cni,
    containerd,
    controller_manager,
    etcd,
    kubelet,
    proxy,
    scheduler,
)
from devcluster.errors import ClusterError, tail
from devcluster.fakenvml import FakeNvml, devicenodes
from devcluster.handle import ClusterHandle
from devcluster.owner_pipe import OwnerPipe
from devcluster.plan import NodePlan
from devcluster.wait import poll

_SECONDS = 120
_QUICK = 0.02
_FALLS = 5
"""How often a daemon with `restarted_always` may be restarted during a start; its next end fails the start.

A kubelet restarts the control plane's static pods, too.
"""

Report = Callable[[str], None]


class Boot:
    """The start of one cluster. Its methods are the steps, in the order in which they are called."""

    def __init__(
        self, running: ClusterHandle, *, images: tuple[Path, ...], report: Report, owner: OwnerPipe
    ) -> None:
        self._owner = owner
        self._running = running
        self._plan = running.plan
        self._control = running.control
        self._images = images
        self._report = report
        self._api = Api(running.plan)

    def run(self) -> None:
        """Run all steps; ClusterError if one fails, with the ends of the logs that may explain it."""
        self._write_files()
        self._make_namespaces()
        start = self._running.start
        start("etcd", etcd.command(self._plan))
        start("kube-apiserver", apiserver.command(self._plan))
        for node in self._plan.nodes:
            start("containerd", containerd.command(node), node=node.name)
        self._import_images()
        self._await("kube-apiserver does not get ready", self._api.ready)
        self._report("kube-apiserver is ready")
        start(controller_manager.NAME, controller_manager.command(self._plan), restarted_always=True)
        start(scheduler.NAME, scheduler.command(self._plan), restarted_always=True)
        for node in self._plan.nodes:
            # A kubelet ends if containerd is away when it starts; on a real machine systemd restarts it.
            start("kubelet", kubelet.command(node), node=node.name, restarted_always=True)
        start(proxy.NAME, proxy.command(self._plan), restarted_always=True)
        names = {node.name for node in self._plan.nodes}
        self._await("the nodes do not get Ready", lambda: self._api.ready_nodes() >= names)
        # Nodes get Ready without kube-controller-manager; no pod can be created without its ServiceAccounts.
        self._await("kube-controller-manager makes no ServiceAccount", self._api.has_service_account)
        self._report(f"nodes are Ready: {', '.join(sorted(names))}")

    def _write_files(self) -> None:
        plan = self._plan
        plan.paths.configuration.mkdir()
        pki.make(plan.paths.pki, plan.addresses, tuple(node.name for node in plan.nodes))
        for name in (controller_manager.NAME, scheduler.NAME, proxy.NAME):
            self._write_kubeconfig(plan.configuration(f"{name}.kubeconfig"), name)
        plan.configuration(f"{scheduler.NAME}.json").write_text(scheduler.configuration(plan))
        plan.configuration(f"{proxy.NAME}.json").write_text(proxy.configuration(plan))
        for node in plan.nodes:
            self._write_node_files(node)

    def _write_node_files(self, node: NodePlan) -> None:
        for folder in (
            "kubelet",
            "cni/configuration",
            "static-pods",
            "pod-logs",
            "volume-plugins",
            "containerd",
        ):
            (node.folder / folder).mkdir(parents=True)
        (node.folder / "containerd.toml").write_text(containerd.configuration(node))
        (node.folder / "cni" / "configuration" / "10-pods.conflist").write_text(cni.configuration(node))
        (node.folder / "kubelet.json").write_text(kubelet.configuration(node))
        self._write_kubeconfig(node.kubeconfig, node.name)
        make_gpus(node)

    def _write_kubeconfig(self, path: Path, bearer: str) -> None:
        keys = self._plan.pki
        kubeconfig.write(
            path,
            kubeconfig.text(
                server=self._plan.server, authority=keys.authority, token=keys.token(bearer), user=bearer
            ),
        )

    def _make_namespaces(self) -> None:
        plan, tree = self._plan, self._running.tree
        plan.paths.logs.mkdir()
        log = plan.paths.logs / "init.log"
        join = tree.make_for_processes(plan.paths.mark)
        namespaces.start(join=join, control=plan.paths.control, log=log, owner=self._owner)

        def there() -> bool:
            if not tree.processes(plan.paths.mark):
                raise ClusterError(f"The cluster's first process ended at once:\n{tail(log)}")
            return self._control.answers()

        if not poll(there, seconds=_SECONDS, every=_QUICK):
            raise ClusterError(f"The cluster's first process does not answer:\n{tail(log)}")
        network.connect(plan.addresses, pid=self._control.host_pid(), nodes=len(plan.nodes))
        for node in plan.nodes:
            tree.make_for_node(plan.paths.mark, node.name)
            self._control.make_node(node.name, namespaces.node_mounts(node))

    def _import_images(self) -> None:
        """Import the images on every node, as soon as its containerd answers."""
        for node in self._plan.nodes:
            problem = f"containerd of {node.name} does not answer"
            self._await(problem, partial(self._running.containerd_answers, node))
            for image in self._images:
                self._running.import_image(node, image)

    def _await(self, problem: str, condition: Callable[[], bool]) -> None:
        """Wait for a condition; give up at once when a daemon of the cluster has ended."""

        def holds() -> bool:
            for name, process in self._control.processes().items():
                given_up = not process.request.restarted_always or process.restarted >= _FALLS
                if process.exited is not None and given_up:
                    log = tail(Path(process.request.log))
                    raise ClusterError(
                        f"{name} ended with {process.exited} while the cluster started:\n{log}"
                    )
            return condition()

        if not poll(holds, seconds=_SECONDS):
            logs = "\n".join(
                f"{name}:\n{tail(Path(process.request.log), 4)}"
                for name, process in self._control.processes().items()
            )
            raise ClusterError(f"After {_SECONDS} s, {problem}. The ends of the logs:\n{logs}")


def make_gpus(node: NodePlan) -> None:
    """Fill the folder of a node's simulated GPUs.

    A node without GPUs gets a simulated driver that lists none; a node with real GPUs gets no folder.

    Raises:
        ClusterError: its device nodes cannot be made.
    """
    if node.spec.real:
        return
    FakeNvml(node.gpu_folder).create(node.spec.gpus)
    node.device_folder.mkdir()
    try:
        devicenodes.make(node.device_folder, node.spec.gpus)
    except OSError as error:
        raise ClusterError(
            f"Cannot make the device node {error.filename}: {error.strerror}. A cluster needs CAP_MKNOD and "
            "a state folder on a disk that allows device nodes."
        ) from error
