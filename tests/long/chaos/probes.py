"""Whether the product, and the cluster under it, do their work: asked from outside."""

from datetime import datetime
from typing import Final

from cluster import names
from cluster.kube.resources import LEASES, NODES, PODS
from devcluster import probe
from tests.long.chaos.ground import GPUS, NAMESPACE, Ground

OF_KUBELETS: Final = names.KUBELET_LEASES


class Probes:
    """Questions to one cluster; each raises ApiError or ClusterError where nobody answers."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._kube = ground.kube
        self._somebody = ground.people[0]

    def process(self, target: str, since: datetime) -> bool:
        """Whether a process of the cluster, or of a node, does its work since an instant."""
        node, _, name = target.rpartition("/")
        if name == "kubelet":
            lease = self._kube.get(LEASES, node, namespace=OF_KUBELETS)
            is_renewed = lease.spec.renew_time is not None and lease.spec.renew_time > since
            return is_renewed and self._is_ready(node) and self.offers(node, GPUS)
        if name == "containerd":
            return self._ground.cluster.containerd_answers(node) and self._is_ready(node)
        return bool(self._kube.list(PODS, limit=1).resource_version) and self.admits()

    def is_renewed(self, lease: str, since: datetime, holders: tuple[str, ...] = ("",)) -> bool:
        """Whether a Lease of ours was renewed since then, by somebody whose name begins like one of these."""
        spec = self._kube.get(LEASES, lease, namespace=names.NAMESPACE).spec
        is_renewed = spec.renew_time is not None and spec.renew_time > since
        return is_renewed and (spec.holder_identity or "").startswith(holders)

    def offers(self, node: str, count: int) -> bool:
        """Whether the kubelet of a node offers so many GPUs."""
        allocatable = self._kube.get(NODES, node).status.allocatable or {}
        return allocatable.get(names.GPU_RESOURCE) == str(count)

    def admits(self) -> bool:
        """Whether somebody could create a pod with a GPU: the API server asks our webhook."""
        body = probe.pod("tried", [probe.container("main", gpus=1)])
        return bool(self._somebody.kube.create(PODS, body, namespace=NAMESPACE, dry_run=True).metadata.uid)

    def lists_bookings(self) -> bool:
        """Whether somebody can see their bookings."""
        return not self._somebody.rest.ask("GET", "/bookings").is_refusal

    def describe(self) -> str:
        """All pods, for the message of a test that has failed."""
        return self._ground.cluster.kubectl("get", "pods", "--all-namespaces", "--output=wide")

    def _is_ready(self, node: str) -> bool:
        conditions = self._kube.get(NODES, node).status.conditions or ()
        return any(one.type == "Ready" and one.status == "True" for one in conditions)
