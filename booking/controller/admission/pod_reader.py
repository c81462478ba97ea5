"""A new pod as received: what it requests, and which of its keys are reserved for us. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from cluster import names
from cluster.objects.pods import Container, Pod
from cluster.objects.quantity import QuantityError, parse_count

Json = Mapping[str, Any]


class BadPodError(ValueError):
    """The object is not a pod that could be read."""


def read(raw: Json) -> Pod:
    """The pod as our readers see it.

    Raises:
        BadPodError: it cannot be read.
    """
    try:
        pod = msgspec.convert(raw, Pod)
    except msgspec.ValidationError as error:
        raise BadPodError(f"The object is not a pod: {error}.") from error
    if not isinstance(raw.get("metadata"), Mapping) or not isinstance(raw.get("spec"), Mapping):
        raise BadPodError("The object is not a pod: it has no metadata or no spec.")
    return pod


def asks_for_gpus(pod: Pod) -> bool:
    """Whether any container requests GPUs, in requests or limits; an amount that cannot be parsed counts."""
    containers = (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))
    return any(asks(container) for container in containers)


def asks(container: Container) -> bool:
    """Whether a container requests GPUs."""
    resources = container.resources
    amounts = [*((resources and resources.requests) or {}).items()]
    amounts += ((resources and resources.limits) or {}).items()
    return any(names.is_gpu_resource(name) and not _is_zero(amount) for name, amount in amounts)


def _is_zero(amount: str | int) -> bool:
    try:
        return parse_count(str(amount)) == 0
    except QuantityError:
        return False


def our_keys(pod: Json) -> list[str]:
    """The pod's annotations, labels, finalizers and scheduling gates that only we may write."""
    metadata = pod["metadata"]
    parts = [metadata.get(part) or () for part in ("annotations", "labels", "finalizers")]
    parts.append([gate.get("name", "") for gate in _gates(pod)])
    return sorted({key for part in parts for key in part if names.is_ours(key)})


def without_ours(pod: Json) -> Json:
    """The pod without annotations, labels, finalizers and scheduling gates that only we may write."""
    metadata = dict(pod["metadata"])
    for part in ("annotations", "labels"):
        if any(map(names.is_ours, metadata.get(part) or ())):
            metadata[part] = {k: v for k, v in metadata[part].items() if not names.is_ours(k)}
    if any(map(names.is_ours, metadata.get("finalizers") or ())):
        metadata["finalizers"] = [f for f in metadata["finalizers"] if not names.is_ours(f)]
    return {**pod, "metadata": metadata, "spec": with_gate(pod["spec"], set_it=False)}


def with_gate(spec: Json, *, set_it: bool) -> Json:
    """The spec of a pod with our scheduling gate, or without any gate of ours."""
    before = spec.get("schedulingGates") or []
    after = [gate for gate in before if not names.is_ours(gate.get("name", ""))]
    if set_it:
        after.append({"name": names.QUEUE})
    if after == before:
        return spec
    return {
        **{k: v for k, v in spec.items() if k != "schedulingGates"},
        **({"schedulingGates": after} if after else {}),
    }


def _gates(pod: Json) -> list[Json]:
    return pod["spec"].get("schedulingGates") or []


def with_annotation(pod: Json, key: str, value: str | None) -> Json:
    """The pod with this annotation, or without it where the value is None."""
    annotations = {k: v for k, v in (pod["metadata"].get("annotations") or {}).items() if k != key}
    if value is not None:
        annotations[key] = value
    return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}}
