"""Pods that want A100s, alone and of controllers: manifests for end-to-end tests."""

from collections.abc import Mapping
from typing import Any

from cluster import names
from devcluster import probe
from tests.e2e.persons import A100
from tests.e2e.playground import HOSTNAME

Json = dict[str, Any]

CHEAP = {names.CHECKPOINT_AT: "2100-01-01T00:00:00Z"}
"""Counts as now: a pod that loses nothing when it is evicted."""
NO_END, UNFINISHED = "100000", "75"
"""Seconds, and the exit code if it is stopped before: with 0 a Job would count the pod as completed."""
IGNORES_DISRUPTION: Json = {
    "rules": [
        {
            "action": "Ignore",
            "onPodConditions": [{"type": names.DISRUPTION_TARGET, "status": "True"}],
        }
    ]
}
"""``podFailurePolicy`` of a Job that does not count evictions as failures."""


def a100(name: str, *, gpus: int = 1, node: str | None = None, seconds: int | None = None) -> Json:
    """A pod that wants A100s, indefinitely or for some seconds."""
    extra = {"nodeSelector": {HOSTNAME: node}} if node else None
    return probe.pod(name, [probe.container("main", gpus=gpus, seconds=seconds)], model=A100, extra=extra)


def template(name: str, *, node: str | None) -> Json:
    """Of a controller: one A100, and nothing to lose."""
    pod = a100(name, node=node)
    annotations = {**pod["metadata"]["annotations"], **CHEAP}
    return {"metadata": {"annotations": annotations, "labels": {"app": name}}, "spec": pod["spec"]}


def deployment(name: str, *, node: str | None = None, replicas: int = 1) -> Json:
    """So many pods."""
    made = template(name, node=node)
    made["spec"].pop("restartPolicy")
    return _workload("Deployment", name, {"replicas": replicas, "template": made})


def stateful_set(name: str, *, node: str) -> Json:
    """One pod, which is ``NAME-0``."""
    made = template(name, node=node)
    made["spec"].pop("restartPolicy")
    return _workload("StatefulSet", name, {"replicas": 1, "template": made, "serviceName": name})


def job(name: str, *, node: str, pods: int = 1, ignores_disruption: bool = True) -> Json:
    """Pods of which none may fail, being taken away possibly aside; they are never finished by then."""
    made = template(name, node=node)
    made["spec"]["containers"][0]["args"] = [NO_END, UNFINISHED]
    policy = {"podFailurePolicy": IGNORES_DISRUPTION} if ignores_disruption else {}
    many = {"parallelism": pods, "completions": pods}
    spec = {"backoffLimit": 0, **policy, **(many if pods > 1 else {}), "template": made}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def _workload(kind: str, name: str, spec: Mapping[str, Any]) -> Json:
    selector = {"matchLabels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {**spec, "selector": selector},
    }
