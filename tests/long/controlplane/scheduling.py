"""Stock kube-schedulers that ask our extender, on simulated nodes: both ways to the scheduler in one cluster.

``DEDICATED`` is the one of the chart, next to the cluster's own, which places pods without GPUs. ``EXISTING``
is like a cluster's own scheduler to which an administrator has added our entry: it places both, and there
our scores count little. Nobody elects a leader here.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import urllib3

from cluster import names
from cluster.fake.clock import eventually
from cluster.kube.client import KubeClient
from cluster.kube.interface import Selection
from cluster.kube.resources import BOOKINGS, PODS
from cluster.objects.pods import Pod
from devcluster.cluster import Cluster
from devcluster.components import kwok
from devcluster.demo.access import administrator
from devcluster.product import (
    chart,
    extender,
    gpu_scheduler,
    identity,
    scheduler_profile,
)
from devcluster.spec import ClusterSpec, NodeSpec
from tests.bench.simulated import describe, simulated
from tests.clusters import own
from tests.controlplane.access import PRIORITY_CLASSES
from tests.e2e.playground import PATIENCE
from tests.fakes.objects import a100, a6000

NAMESPACE: Final = "people"
HIGHEST: Final = 1_000_000_000
"""The highest priority that a class may have that is not Kubernetes' own."""


@dataclass(frozen=True)
class Mode:
    """Who schedules."""

    gpu_pods: str
    other_pods: str


DEDICATED: Final = Mode(names.SCHEDULER_NAME, "default-scheduler")
EXISTING: Final = Mode("existing", "existing")
WEIGHTS: Final = {DEDICATED.gpu_pods: scheduler_profile.WEIGHT, EXISTING.gpu_pods: 1}
"""Scheduler -> what our scores count there."""


class Field:
    """Three nodes of 64 processors: two of eight A100, the last of four A100 and four A6000."""

    def __init__(self, cluster: Cluster, kube: KubeClient, nodes: Sequence[str]) -> None:
        self.cluster, self.kube, self.nodes = cluster, kube, tuple(nodes)

    def create(
        self, name: str, *, scheduler: str, gpus: int = 0, node: int | None = None, **more: Any
    ) -> None:
        """A pod of alice's, or of ``user``; ``cpu``, ``priority_class``, ``annotations``, ``affinity``.

        ``claim``: a PersistentVolumeClaim of its.
        """
        amounts = {names.GPU_RESOURCE: str(gpus)} if gpus else {}
        container = {
            "name": "main",
            "image": "none",
            "resources": {"limits": amounts, "requests": {**amounts, "cpu": more.get("cpu", "0")}},
        }
        selector = {"kubernetes.io/hostname": self.nodes[node]} if node is not None else {}
        spec: dict[str, Any] = {
            "schedulerName": scheduler,
            "nodeSelector": {kwok.LABEL: "true", **selector},
            "automountServiceAccountToken": False,
            "containers": [container],
        }
        if priority_class := more.get("priority_class"):
            spec["priorityClassName"] = priority_class
        if affinity := more.get("affinity"):
            spec["affinity"] = affinity
        if claim := more.get("claim"):
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        annotations = {names.USER: more.get("user", "alice"), **more.get("annotations", {})}
        body = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
        self.kube.create(PODS, body, namespace=NAMESPACE)

    def placed(self, *pods: str) -> dict[str, int]:
        """Pod -> the number of its node, once all of them are bound."""
        eventually(lambda: all(self.pod(name).spec.node_name for name in pods), deadline=PATIENCE)
        return {name: self.nodes.index(str(self.pod(name).spec.node_name)) for name in pods}

    def await_unschedulable(self, name: str) -> None:
        """Wait until its scheduler has found no node for a pod."""

        def is_unschedulable() -> bool:
            conditions = self.pod(name).status.conditions or ()
            return any(one.type == "PodScheduled" and one.reason == "Unschedulable" for one in conditions)

        eventually(is_unschedulable, deadline=PATIENCE)

    def pod(self, name: str) -> Pod:
        return self.kube.get(PODS, name, namespace=NAMESPACE)

    def events(self, name: str) -> list[tuple[str, str]]:
        """Reason and message of every event of a pod."""
        words = (
            "--namespace",
            NAMESPACE,
            "--field-selector",
            f"involvedObject.name={name}",
            "--output",
            "json",
        )
        events = json.loads(self.cluster.kubectl("get", "events", *words))["items"]
        return [(event["reason"], event["message"]) for event in events]

    def living(self) -> set[str]:
        """Names of the pods that have not been deleted."""
        pods = self.kube.list(PODS, Selection(namespace=NAMESPACE)).items
        return {pod.metadata.name for pod in pods if not pod.metadata.deletion_timestamp}

    def book(self, user: str, model: str, count: int) -> None:
        """A booking that has begun long ago."""
        spec = {
            "user": user,
            "model": model,
            "count": count,
            "start": "2026-01-01T00:00:00Z",
            "end": "2099-01-01T00:00:00Z",
            "storeId": "none",
        }
        self.kube.create(BOOKINGS, {"metadata": {"name": f"b-{user}"}, "spec": spec})

    def clear(self) -> None:
        """No pods and no bookings."""
        for name in self.living():
            self.kube.delete(PODS, name, namespace=NAMESPACE, grace_seconds=0)
        for booking in self.kube.list(BOOKINGS).items:
            self.kube.delete(BOOKINGS, booking.name)
        eventually(lambda: not self.kube.list(PODS, Selection(namespace=NAMESPACE)).items, deadline=PATIENCE)


@contextmanager
def field() -> Iterator[Field]:
    """The cluster, while everything in it runs."""
    spec = ClusterSpec(name=own("places"), nodes=(NodeSpec(name="idle"),))
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster.start(spec))
        kube = stack.enter_context(closing(administrator(cluster)))
        _install(cluster, kube)
        nodes = stack.enter_context(simulated(cluster, kube, 3))
        halves = [a100(i, nodes[2]) for i in range(4)] + [a6000(i, nodes[2]) for i in range(4, 8)]
        describe(kube, nodes[2], halves)
        _extender(cluster)
        for name, weight in WEIGHTS.items():
            _scheduler(cluster, name, weight)
        yield Field(cluster, kube, nodes)


def _install(cluster: Cluster, kube: KubeClient) -> None:
    """The chart without what would change or refuse the pods that are made here."""
    chart.install(cluster, chart.external_values(cluster.address) | {"policies": {"enabled": False}})
    cluster.kubectl("delete", "mutatingwebhookconfigurations", "--all")
    cluster.kubectl("create", "namespace", NAMESPACE)
    for name, value in (("highest", HIGHEST), ("important", 1000)):
        kube.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})


def _extender(cluster: Cluster) -> None:
    folder = cluster.state / "parts"
    folder.mkdir(mode=0o700, exist_ok=True)
    environment = identity.environment(cluster, folder, extender.ACCOUNT)
    part = extender.part({**environment, names.setting("leader_election"): "false"})
    cluster.spawn(part.name, part.program, env=part.environment)
    url = f"http://{cluster.address}:{part.probes}/readyz"
    eventually(lambda: _is_ready(url), deadline=PATIENCE)


def _is_ready(url: str) -> bool:
    try:
        return urllib3.request("GET", url, timeout=5.0, retries=False).status == HTTPStatus.OK
    except urllib3.exceptions.HTTPError:
        return False


def _scheduler(cluster: Cluster, name: str, weight: int) -> None:
    folder = cluster.state / "parts" / name
    folder.mkdir(mode=0o700)
    kubeconfig = identity.write_kubeconfig(cluster, folder, gpu_scheduler.ACCOUNT)
    url = f"http://127.0.0.1:{extender.PORT}"
    profile = scheduler_profile.configuration(kubeconfig=kubeconfig, extender_url=url)
    profile["leaderElection"] = {"leaderElect": False}
    profile["profiles"] = [{"schedulerName": name}]
    profile["extenders"][0]["weight"] = weight
    path = folder / "scheduler.json"
    path.write_text(json.dumps(profile))
    command = [str(cluster.program("kubebox")), "kube-scheduler", f"--config={path}", "--secure-port=0"]
    cluster.spawn(f"scheduler-{name}", command)
