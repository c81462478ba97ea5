"""A cluster as its first test found it: its state, its repair afterwards, and what still differs."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

from cluster import names
from cluster.kube.errors import ApiError
from cluster.kube.resources import BOOKINGS, NAMESPACES, NODES, PODS
from cluster.objects.inventory import inventory_of
from cluster.objects.nodes import Node
from cluster.objects.pods import asks_for_gpus, is_terminal
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.control import Request
from devcluster.demo.access import administrator
from devcluster.errors import ClusterError
from devcluster.fakenvml import FakeNvml
from devcluster.product import Parts
from devcluster.wait import poll
from tests.patience import PATIENCE


@dataclass(frozen=True)
class Machine:
    """A node, as tests must find it."""

    ready: bool
    unschedulable: bool
    taints: frozenset[tuple[str, str]]
    allocatable: str | int
    healthy: frozenset[str]
    """UUIDs of its GPUs that are allocatable."""

    def is_complete(self, gpus: int) -> bool:
        """Whether the node takes pods, for so many GPUs."""
        return self.ready and not self.taints and len(self.healthy) == int(self.allocatable) == gpus


@dataclass(frozen=True)
class ClusterState:
    """A cluster with our parts, as tests must find it.

    Args:
        daemons: name -> what it was started with.
        machines: node -> what it is like.
        gpus: node -> its simulated GPUs, as their file says.
        pods: names of the pods that ask for GPUs.
        bookings: ids of those that are not over.
        leaving: namespaces that are on their way out.
    """

    daemons: Mapping[str, Request]
    machines: Mapping[str, Machine]
    gpus: Mapping[str, Mapping[str, str]]
    pods: frozenset[str] = frozenset()
    bookings: frozenset[str] = frozenset()
    leaving: frozenset[str] = frozenset()


def read_state(cluster: Cluster) -> ClusterState:
    """The state of a cluster now.

    Raises:
        ApiError, ClusterError: it does not answer.
    """
    now = SystemClock().now()
    with closing(administrator(cluster)) as kube:
        machines = {node.metadata.name: _machine(node) for node in kube.list(NODES).items}
        pods = kube.list(PODS).items
        bookings = kube.list(BOOKINGS).items
        namespaces = kube.list(NAMESPACES).items
    return ClusterState(
        daemons=_running(cluster),
        machines=machines,
        gpus={node: FakeNvml(cluster.gpu_folder(node)).stored() for node in cluster.nodes},
        pods=frozenset(
            f"{pod.metadata.namespace}/{pod.metadata.name}"
            for pod in pods
            if asks_for_gpus(pod) and not is_terminal(pod)
        ),
        bookings=frozenset(one.metadata.name for one in bookings if one.spec.end > now),
        leaving=frozenset(one.metadata.name for one in namespaces if one.metadata.deletion_timestamp),
    )


def differences(was: ClusterState, now: ClusterState) -> list[str]:
    """What is not as it was, a sentence each."""
    return [
        *_processes(was.daemons, now.daemons),
        *(
            f"node {name} was {machine} and is {now.machines.get(name)}"
            for name, machine in was.machines.items()
            if now.machines.get(name) != machine
        ),
        *(f"the GPUs of {node} differ" for node in was.gpus if now.gpus.get(node) != was.gpus[node]),
        *(f"pod {name} is left over" for name in sorted(now.pods - was.pods)),
        *(f"booking {name} is not over" for name in sorted(now.bookings - was.bookings)),
        *(f"namespace {name} stays" for name in sorted(now.leaving - was.leaving)),
    ]


def _processes(was: Mapping[str, Request], now: Mapping[str, Request]) -> Iterator[str]:
    for name, request in was.items():
        if name not in now:
            yield f"{name} does not run"
        elif now[name] != request:
            yield f"{name} runs with other arguments or settings ({_of(request, now[name])})"
    yield from (f"{name} runs" for name in sorted(now.keys() - was.keys()))


def _of(was: Request, now: Request) -> str:
    """Which fields differ, and which variables."""
    fields = [field for field in was.__struct_fields__ if getattr(was, field) != getattr(now, field)]
    variables = sorted(name for name, _ in {*was.env.items()} ^ {*now.env.items()})
    return ", ".join(dict.fromkeys([*fields, *variables]))


class Restoring:
    """Brings a cluster back to what it was."""

    def __init__(self, cluster: Cluster, parts: Parts, was: ClusterState) -> None:
        self._cluster = cluster
        self._parts = parts
        self._was = was

    def restart_daemons(self) -> list[str]:
        """Continue what was stopped, start again what has ended; what was so, by name.

        Raises:
            ClusterError: the cluster is gone, or its API server does not answer.
        """
        stopped: list[str] = []
        ended: list[str] = []
        for name in self._was.daemons:
            daemon = self._cluster.daemon(name)
            if daemon.exited is not None:
                daemon.restart()
                ended.append(f"{name} had ended")
            elif daemon.is_stopped:
                stopped.append(f"{name} was stopped")
        for node in self._cluster.nodes:
            self._cluster.resume(node)
        for name in self._was.daemons:
            self._cluster.resume(name)
        if not poll(self._answers, seconds=PATIENCE):
            raise ClusterError(f"The API server does not answer within {PATIENCE:.0f} s.")
        return stopped + ended

    def finish(self) -> list[str]:
        """Give back the GPUs, end what does not belong here, count from zero; what is different after all.

        Raises:
            ClusterError: a part does not get ready.
        """
        for name in self._cluster.processes().keys() - self._was.daemons.keys():
            self._cluster.kill(name)
        for node, stored in self._was.gpus.items():
            FakeNvml(self._cluster.gpu_folder(node)).store(stored)
        self._parts.restore()
        self._cluster.reset_restarts()
        left = list(_processes(self._was.daemons, _running(self._cluster)))
        if left:
            return left  # time changes nothing about it

        def is_same() -> bool:
            left[:] = self._differences()
            return not left

        poll(is_same, seconds=PATIENCE, every=0.2)
        return left

    def _differences(self) -> list[str]:
        try:
            return differences(self._was, read_state(self._cluster))
        except ApiError as error:
            return [f"the API server says {error}"]

    def _answers(self) -> bool:
        try:
            read_state(self._cluster)
        except ApiError:
            return False
        return True


def _running(cluster: Cluster) -> dict[str, Request]:
    return {name: one.request for name, one in cluster.processes().items() if one.exited is None}


def _machine(node: Node) -> Machine:
    conditions = {one.type: one.status for one in node.status.conditions or ()}
    return Machine(
        ready=conditions.get("Ready") == "True",
        unschedulable=bool(node.spec.unschedulable),
        taints=frozenset((taint.key, taint.effect) for taint in node.spec.taints or ()),
        allocatable=(node.status.allocatable or {}).get(names.GPU_RESOURCE, 0),
        healthy=frozenset(device.uuid for device in inventory_of(node) if device.is_healthy),
    )
