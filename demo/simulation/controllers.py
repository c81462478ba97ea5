"""kube-controller-manager, as far as our pods see it: unreachable nodes, workloads that want pods back.

A node whose kubelet is unreachable for 40 s is not ready and tainted; 300 s later its pods are evicted (with
DisruptionTarget). A workload creates a pod for every one that is missing.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cluster import names
from cluster.kube.errors import ApiError
from cluster.kube.interface import Selection
from cluster.kube.resources import NODES, PODS
from cluster.objects.pods import Pod, is_live
from demo.simulation.job_controller import BatchJob
from demo.simulation.part import Part
from demo.simulation.surroundings import Surroundings

Json = dict[str, Any]

CHECK_EVERY: Final = 5.0
UNREACHABLE_AFTER: Final = 40.0
EVICTED_AFTER: Final = 300.0
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
WORKLOADS: Final = "system:serviceaccount:kube-system:replicaset-controller"


@dataclass
class Workload:
    """A ReplicaSet."""

    name: str
    namespace: str
    replicas: int
    template: Json

    @property
    def owner(self) -> Json:
        """As its pods name it."""
        kind = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}
        return {**kind, "name": self.name, "uid": f"uid-of-{self.name}"}


class Controllers(Part):
    """One process."""

    latency = 0.01
    user = WORKLOADS

    def __init__(self, world: Surroundings, name: str) -> None:
        super().__init__(world, name)
        self._heartbeats: dict[str, float] = {}
        self._unreachable: dict[str, float] = {}
        self.workloads: list[Workload] = []
        self.jobs: list[BatchJob] = []
        self._numbers = itertools.count(1)

    def build(self) -> None:
        """A new process."""
        self.every(CHECK_EVERY, self._reconcile)

    def heartbeat(self, node: str) -> None:
        """The node's kubelet has renewed its Lease."""
        self._heartbeats[node] = self.world.loop.now
        if node in self._unreachable:
            # A moment later: Kubernetes checks every five seconds.
            self.after(CHECK_EVERY / 2, self._reconcile)

    def _reconcile(self) -> None:
        try:
            for node in sorted(self._heartbeats):
                self._judge(node)
            for workload in self.workloads:
                self._fill_up(workload)
            for job in self.jobs:
                job.reconcile(self.kube)
        except ApiError:
            return

    # --- nodes -----------------------------------------------------------------------------------------
    def _judge(self, node: str) -> None:
        now = self.world.loop.now
        unreachable = now - self._heartbeats[node] > UNREACHABLE_AFTER
        if unreachable and node not in self._unreachable:
            self._mark(node, ready="Unknown", taints=[_taint("NoSchedule"), _taint("NoExecute")])
            self._unreachable[node] = now
        elif not unreachable and node in self._unreachable:
            self._mark(node, ready="True", taints=[])
            del self._unreachable[node]
        if unreachable and now - self._unreachable[node] > EVICTED_AFTER:
            self._evict_all(node)

    def _mark(self, node: str, *, ready: str, taints: Sequence[Json]) -> None:
        condition = {"type": "Ready", "status": ready}
        self.kube.patch(NODES, node, {"status": {"conditions": [condition]}}, subresource="status")
        self.kube.patch(NODES, node, {"spec": {"taints": list(taints)}})

    def _evict_all(self, node: str) -> None:
        for pod in self.kube.list(PODS, Selection(field_selector=f"spec.nodeName={node}")).items:
            if is_live(pod):
                self._evict(pod)

    def _evict(self, pod: Pod) -> None:
        meta = pod.metadata
        condition = {
            "type": names.DISRUPTION_TARGET,
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        }
        others = [{"type": c.type, "status": c.status} for c in pod.status.conditions or ()]
        body = {"metadata": {"uid": meta.uid}, "status": {"conditions": [*others, condition]}}
        self.kube.patch(PODS, meta.name, body, namespace=meta.namespace, subresource="status")
        self.kube.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid)

    # --- workloads -------------------------------------------------------------------------------------
    def run(self, workload: Workload) -> None:
        """Somebody has created a ReplicaSet."""
        self.workloads.append(workload)
        self.after(0.1, self._reconcile)

    def run_job(self, job: BatchJob) -> BatchJob:
        """Somebody creates a Job; returns it."""
        job.create(self.kube)
        self.jobs.append(job)
        self.every(1.0, self._reconcile)
        return job

    def _fill_up(self, workload: Workload) -> None:
        theirs = [
            pod
            for pod in self.kube.list(PODS, Selection(namespace=workload.namespace)).items
            if is_live(pod)
            and any(o.uid == workload.owner["uid"] for o in pod.metadata.owner_references or ())
        ]
        for _ in range(workload.replicas - len(theirs)):
            name = f"{workload.name}-{next(self._numbers)}"
            metadata: Mapping[str, Any] = workload.template.get("metadata") or {}
            body = {
                "metadata": {**metadata, "name": name, "ownerReferences": [workload.owner]},
                "spec": workload.template["spec"],
            }
            self.kube.create(PODS, body, namespace=workload.namespace)


def _taint(effect: str) -> Json:
    return {"key": UNREACHABLE, "effect": effect}
