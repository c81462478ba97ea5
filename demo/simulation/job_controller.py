"""Kubernetes' Job controller, as far as evictions matter to it."""

from dataclasses import dataclass, field
from typing import Any, Final

from cluster import names
from cluster.kube.interface import Kube, Selection
from cluster.kube.resources import JOBS, PODS
from cluster.objects.pods import Pod, has_condition, is_live, is_terminal, is_terminating

Json = dict[str, Any]

TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""The controller's finalizer on its pods, which goes when it has counted their end."""
UID_LABEL: Final = "batch.kubernetes.io/controller-uid"


@dataclass
class BatchJob:
    """A Job whose pods run until they are ended."""

    name: str
    namespace: str
    parallelism: int
    template: Json
    backoff_limit: int = 0
    rules: list[Json] = field(default_factory=list)
    """``spec.podFailurePolicy.rules``."""
    uid: str = ""
    created: int = 0
    failed: set[str] = field(default_factory=set)
    """Uids of the pods whose failure was counted."""
    ignored: set[str] = field(default_factory=set)

    @property
    def has_failed(self) -> bool:
        """Whether the Job has failed as a whole."""
        return len(self.failed) > self.backoff_limit

    def create(self, kube: Kube) -> None:
        """Somebody creates it."""
        policy = {"podFailurePolicy": {"rules": self.rules}} if self.rules else {}
        spec = {"backoffLimit": self.backoff_limit, "parallelism": self.parallelism, **policy}
        body = {"metadata": {"name": self.name}, "spec": spec}
        self.uid = kube.create(JOBS, body, namespace=self.namespace).metadata.uid

    def reconcile(self, kube: Kube) -> None:
        """One pass: count failures, then fail as a whole, or create what is missing."""
        pods = [
            pod for pod in kube.list(PODS, Selection(namespace=self.namespace)).items if self._is_mine(pod)
        ]
        known = len(self.failed)
        for pod in pods:
            if is_terminating(pod) or is_terminal(pod):
                self._count(kube, pod)
        if len(self.failed) != known:
            status = {"status": {"failed": len(self.failed)}}
            kube.patch(JOBS, self.name, status, namespace=self.namespace)
        living = [pod for pod in pods if is_live(pod)]
        if self.has_failed:
            for pod in living:
                meta = pod.metadata
                kube.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid)
            return
        for _ in range(self.parallelism - len(living)):
            self._create_pod(kube)

    def _is_mine(self, pod: Pod) -> bool:
        """It takes over pods without a controller that carry its uid."""
        controller = pod.metadata.controller
        if controller is not None:
            return controller.uid == self.uid
        return (pod.metadata.labels or {}).get(UID_LABEL) == self.uid

    def _count(self, kube: Kube, pod: Pod) -> None:
        meta = pod.metadata
        is_ignored = bool(self.rules) and has_condition(pod, names.DISRUPTION_TARGET)
        (self.ignored if is_ignored else self.failed).add(meta.uid)
        if TRACKING in (meta.finalizers or ()):
            others = [one for one in meta.finalizers or () if one != TRACKING]
            body = {"metadata": {"uid": meta.uid, "finalizers": others}}
            kube.patch(PODS, meta.name, body, namespace=meta.namespace)

    def _create_pod(self, kube: Kube) -> None:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": self.name, "uid": self.uid}
        metadata = {
            **(self.template.get("metadata") or {}),
            "name": f"{self.name}-{self.created + 1}",
            "labels": {UID_LABEL: self.uid},
            "finalizers": [TRACKING],
            "ownerReferences": [{**owner, "controller": True}],
        }
        kube.create(PODS, {"metadata": metadata, "spec": self.template["spec"]}, namespace=self.namespace)
        self.created += 1
