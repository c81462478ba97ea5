"""A cluster of simulated nodes whose pods a real kube-scheduler places, with our extender or without it.

Each kube-scheduler has the profile of mode ``dedicated``. The null extender stands in the same entry, for the
same verbs. Without any extender only this entry is left out, and no process of one runs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import urllib3

from booking.controller.admission.model_affinity import with_model_affinity
from cluster import names
from cluster.kube.client import KubeClient
from cluster.kube.errors import NotFound
from cluster.kube.resources import LEASES, PODS
from devcluster.cluster import Cluster
from devcluster.components import kwok
from devcluster.demo.access import administrator
from devcluster.procstat import used_seconds
from devcluster.product import (
    chart,
    extender,
    gpu_scheduler,
    identity,
    scheduler_profile,
)
from devcluster.spec import ClusterSpec, NodeSpec
from devcluster.wait import poll
from tests.bench.audit import AuditLog, audited, service_account
from tests.bench.pods import NAMESPACE, Sightings, sighted
from tests.bench.simulated import in_parallel, null_extender, simulated
from tests.clusters import own

QPS: Final = 1000
"""Of a kube-scheduler whose own limit must not show in the result; its burst is twice that."""
Asks = Literal["ours", "null", "none"]
"""Which extender kube-scheduler asks: ours, one that decides nothing, or none."""
ALICE: Final = "alice"
_READY_SECONDS: Final = 60.0


@contextmanager
def arena(nodes: int, *, larger: Mapping[str, int] | None = None) -> "Iterator[Arena]":
    """A cluster of this many nodes with eight GPUs each, and of the ``larger`` ones: name -> GPUs."""
    with (
        real_arena(NodeSpec(name="node-a")) as place,
        simulated(place.cluster, place.kube, nodes, larger=larger) as made,
    ):
        place.nodes = tuple(made[:nodes])
        yield place


@contextmanager
def real_arena(*nodes: NodeSpec) -> "Iterator[Arena]":
    """A cluster of these nodes, with real kubelets; no device plugin runs."""
    with ExitStack() as stack:
        audit = stack.enter_context(audited(service_account(extender.ACCOUNT)))
        spec = ClusterSpec(name=own("bench-sched"), nodes=nodes, apiserver_arguments=audit.arguments)
        cluster = stack.enter_context(Cluster.start(spec))
        kube = stack.enter_context(closing(administrator(cluster)))
        _install(cluster)
        sightings = stack.enter_context(sighted(kube))
        yield Arena(cluster, kube, sightings, audit, tuple(node.name for node in nodes))


def _install(cluster: Cluster) -> None:
    """Accounts and rights of our parts, but neither the policies nor the webhook: no controller runs."""
    # The policies refuse pods with GPUs that the webhook has not seen.
    chart.install(cluster, chart.external_values(cluster.address) | {"policies": {"enabled": False}})
    cluster.kubectl("delete", "mutatingwebhookconfigurations", "--all")
    cluster.kubectl("create", "namespace", NAMESPACE)


@dataclass
class Arena:
    """The cluster, and what schedules its pods."""

    cluster: Cluster
    kube: KubeClient
    sightings: Sightings
    audit: AuditLog
    nodes: Sequence[str]
    """Names of the nodes on which pods are measured."""
    processor_seconds: Callable[[], float] = field(default=lambda: 0.0, init=False)
    """Seconds of processor time that our extender has used so far."""
    _started: int = field(default=0, init=False)

    @contextmanager
    def scheduling(self, qps: int = QPS, asks: Asks = "ours") -> Iterator[None]:
        """While it lasts, a kube-scheduler of its own places pods, and asks this extender."""
        self._started += 1
        with ExitStack() as stack:
            if asks == "ours":
                stack.enter_context(self._extender())
            elif asks == "null":
                stack.enter_context(self._null_extender())
            stack.enter_context(self._scheduler(qps, with_extender=asks != "none"))
            yield

    def create(self, bodies: Iterable[dict[str, Any]]) -> None:
        """Create pods as fast as possible."""
        in_parallel([partial(self.kube.create, PODS, body, namespace=NAMESPACE) for body in bodies])

    def remove(self, pods: Sequence[str]) -> None:
        """Delete pods, and wait until they are gone."""
        in_parallel(
            [partial(self.kube.delete, PODS, pod, namespace=NAMESPACE, grace_seconds=0) for pod in pods]
        )
        for pod in pods:
            self.sightings.at(pod, "gone")

    @contextmanager
    def _extender(self) -> Iterator[None]:
        account = identity.environment(self.cluster, self._folder, extender.ACCOUNT)
        part = extender.part(account)
        daemon = self.cluster.spawn(
            f"{part.name}-{self._started}", part.program, env=part.environment, restarted_always=True
        )
        url = f"http://{self.cluster.address}:{part.probes}/readyz"
        if not poll(lambda: _is_ready(url), seconds=_READY_SECONDS):
            raise RuntimeError(f"The extender does not get ready; its log is {daemon.log}.")
        self.processor_seconds = partial(used_seconds, daemon.pid)
        yield
        daemon.kill()

    @contextmanager
    def _null_extender(self) -> Iterator[None]:
        account = identity.environment(self.cluster, self._folder, extender.ACCOUNT)
        part = extender.part(account)
        program = [str(null_extender())]
        daemon = self.cluster.spawn(f"null-{self._started}", program, env=part.environment)
        url = f"http://{self.cluster.address}:{extender.PORT}/prioritize"
        if not poll(lambda: _is_ready(url), seconds=_READY_SECONDS):
            raise RuntimeError(f"The null extender does not get ready; its log is {daemon.log}.")
        yield
        daemon.kill()

    @contextmanager
    def _scheduler(self, qps: int, *, with_extender: bool) -> Iterator[None]:
        """A kube-scheduler that leads at once, with the profile that we ship or one without extenders."""
        with suppress(NotFound):
            self.kube.delete(LEASES, names.SCHEDULER_LEASE, namespace=names.NAMESPACE)
        part = gpu_scheduler.part(
            kubebox=self.cluster.program("kubebox"),
            kubeconfig=self._scheduler_kubeconfig,
            folder=self._folder,
        )
        profile = scheduler_profile.configuration(
            kubeconfig=self._scheduler_kubeconfig, extender_url=f"http://127.0.0.1:{extender.PORT}"
        )
        profile["clientConnection"] |= {"qps": qps, "burst": 2 * qps}
        if not with_extender:
            del profile["extenders"]
        # Replaces the configuration that the part has written itself.
        (self._folder / f"{part.name}.json").write_bytes(msgspec.json.encode(profile))
        # A scheduler that loses its Lease exits; in the chart the kubelet starts it again.
        daemon = self.cluster.spawn(f"{part.name}-{self._started}", part.program, restarted_always=True)
        yield
        daemon.kill()

    @property
    def _folder(self) -> Path:
        folder = self.cluster.state / "parts"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    @property
    def _scheduler_kubeconfig(self) -> Path:
        return identity.write_kubeconfig(self.cluster, self._folder, gpu_scheduler.ACCOUNT)


def _is_ready(url: str) -> bool:
    try:
        return urllib3.request("GET", url, timeout=2.0, retries=False).status == HTTPStatus.OK
    except urllib3.exceptions.HTTPError:
        return False


def gpu_pod(
    name: str, *, node: str | None = None, model: str | None = None, booked: bool = False
) -> dict[str, Any]:
    """The body of a pod with one GPU, for any node or for a certain one, with what admission would write.

    Args:
        name: the pod's name.
        node: the only node on which it may run.
        model: the only model that it accepts.
        booked: whether it is alice's, who has a booking; otherwise it is opportunistic.
    """
    where = {"kubernetes.io/hostname": node} if node else {}
    resources = {"limits": {names.GPU_RESOURCE: "1"}}
    annotations = {names.MODEL: model} if model else {}
    spec = {
        "schedulerName": names.SCHEDULER_NAME,
        "priorityClassName": names.BOOKED_CLASS if booked else names.OPPORTUNISTIC_CLASS,
        "nodeSelector": {kwok.LABEL: "true", **where},
        "automountServiceAccountToken": False,
        "containers": [{"name": "main", "image": "none", "resources": resources}],
    }
    return {
        "metadata": {"name": name, "annotations": annotations | ({names.USER: ALICE} if booked else {})},
        "spec": with_model_affinity(spec, model),
    }
