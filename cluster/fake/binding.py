"""Bindings: node, annotations and labels in one write, for a pod that is neither bound nor gated."""

from cluster.fake.errors import check_preconditions, refusal
from cluster.fake.merging import merged
from cluster.fake.state import Json
from cluster.kube.errors import Request


def bound(request: Request, pod: Json, binding: Json, at: str) -> Json:
    """The pod after a Binding. Whether the node exists is not checked.

    Raises:
        Conflict: the pod is another one, bound, being deleted, or gated.
    """
    metadata = binding.get("metadata") or {}
    _check_body(request, pod, binding)
    check_preconditions(request, pod, metadata, "pods/binding")
    if problem := _problem(pod):
        name = pod["metadata"]["name"]
        message = f'Operation cannot be fulfilled on pods/binding "{name}": {problem}'
        raise refusal(request, 409, "Conflict", message)
    kept = {key: metadata[key] for key in ("annotations", "labels") if metadata.get(key)}
    scheduled = {"type": "PodScheduled", "status": "True"}
    return merged(
        pod,
        {
            "metadata": kept,
            "spec": {"nodeName": binding["target"]["name"]},
            "status": {"conditions": with_condition(pod, scheduled, at), "nominatedNodeName": None},
        },
    )


def with_condition(pod: Json, condition: Json, at: str) -> list[Json]:
    """The pod's conditions, with this one added or in place of the one of its type."""
    conditions: list[Json] = (pod.get("status") or {}).get("conditions") or []
    old = next((one for one in conditions if one["type"] == condition["type"]), None)
    since = old.get("lastTransitionTime", at) if old and old["status"] == condition["status"] else at
    new = {**condition, "lastTransitionTime": since}
    if old is None:
        return [*conditions, new]
    return [new if one is old else one for one in conditions]


def _check_body(request: Request, pod: Json, binding: Json) -> None:
    if (binding.get("metadata") or {}).get("name") != pod["metadata"]["name"]:
        raise refusal(request, 400, "BadRequest", "name in URL does not match name in Binding object")
    if not (binding.get("target") or {}).get("name"):
        raise refusal(request, 500, "InternalError", "target.name: Required value")


def _problem(pod: Json) -> str | None:
    name, spec = pod["metadata"]["name"], pod.get("spec") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return None
