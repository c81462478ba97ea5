"""A webhook that a real API server asks, and people who create pods there."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import urllib3

from booking.controller.admission.webhook import Reply, Webhook
from cluster import names
from cluster.cache import ClusterCache
from devcluster.cluster import Cluster

Json = dict[str, Any]


def priority_class(name: str, value: int) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": "Never",
    }


@dataclass
class ServedWebhook:
    """The webhook under test, what it sees, and how often it was asked."""

    admit: Webhook
    cache: ClusterCache
    calls: int = 0

    def __call__(self, body: bytes) -> Reply:
        self.calls += 1
        return self.admit(body)


@dataclass
class Created:
    """What the API server made of a pod, or why not."""

    status: int
    body: Json
    warnings: tuple[str, ...]

    @property
    def annotations(self) -> Json:
        found: Json = self.body["metadata"].get("annotations", {})
        return found

    @property
    def spec(self) -> Json:
        found: Json = self.body["spec"]
        return found


@dataclass
class People:
    """Creates pods as this or that person."""

    cluster: Cluster
    pool: urllib3.PoolManager = field(init=False)

    def __post_init__(self) -> None:
        self.pool = urllib3.PoolManager(ca_certs=str(self.cluster.ca_file), retries=False, timeout=30)

    def create(self, who: str, pod: Json, *, namespace: str = "default", dry_run: bool = False) -> Created:
        where = f"{self.cluster.api_server}/api/v1/namespaces/{namespace}/pods"
        answer = self.pool.request(
            "POST",
            f"{where}{'?dryRun=All' if dry_run else ''}",
            body=msgspec.json.encode(pod),
            headers={
                "Authorization": f"Bearer {self.cluster.administrator_token}",
                "Content-Type": "application/json",
                "Impersonate-User": who,
            },
        )
        return Created(answer.status, answer.json(), tuple(answer.headers.getlist("Warning")))


def a_pod(*, gpus: int = 1, where: str = "containers", **metadata: Any) -> Json:
    """A pod that nobody runs."""
    containers: Json = {"containers": [{"name": "main", "image": "example.invalid/none"}]}
    asking: Json = {"name": "asks", "image": "example.invalid/none"}
    if gpus:
        asking |= {"resources": {"limits": {names.GPU_RESOURCE: str(gpus)}}}
    containers[where] = [asking]
    return {
        "metadata": {"generateName": "p-", **metadata},
        "spec": {"schedulerName": "nobody", **containers},
    }
