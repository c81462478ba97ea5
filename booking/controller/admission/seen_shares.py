"""How a container with a share sees its GPU where another device plugin gives out the GPUs. Pure.

That plugin knows nothing of the share, so NVIDIA's runtime is told by its own variable which GPU to show. Its
value comes from an annotation of the pod, which the Binding fills in. It hides nothing from a process that
wants to see more: no boundary. Where the node agent gives out the GPUs, its CDI devices count, and the
variable says the same.
"""

from collections.abc import Mapping
from typing import Any

from booking.controller.admission.sharing_dialects.containers import Json, changed, containers, gpus
from cluster import names
from cluster.objects.reservation_pods import visible_key

NOT_YET = ""
"""The annotation's value until the pod is bound."""


def seen_by_annotation(spec: Json, *, runtime_class: str) -> tuple[Json, Mapping[str, str]]:
    """The spec whose containers with shares see the GPUs that annotations name, and these annotations.

    Args:
        spec: of a pod with GPUs, without variables of its user's about which GPUs are visible.
        runtime_class: its RuntimeClass, if it names none; empty for none.
    """
    keys = {
        one.get("name", ""): visible_key(one.get("name", ""))
        for one in containers(spec)
        if gpus(one).get(names.SHARED_RESOURCE)
    }
    if not keys:
        return spec, {}

    def seeing(container: Json) -> Json:
        key = keys.get(container.get("name", ""))
        return {**container, "env": [*(container.get("env") or ()), _variable(key)]} if key else container

    found = changed(spec, seeing)
    if runtime_class and not found.get("runtimeClassName"):
        found = {**found, "runtimeClassName": runtime_class}
    return found, dict.fromkeys(keys.values(), NOT_YET)


def _variable(key: str) -> dict[str, Any]:
    field = {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{key}']"}
    return {"name": names.VISIBLE_DEVICES_VARIABLE, "valueFrom": {"fieldRef": field}}
