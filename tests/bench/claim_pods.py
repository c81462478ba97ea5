"""A node that gives its GPUs by claims, one that gives them by ``nvidia.com/gpu``, and pods for both."""

from collections.abc import Mapping
from typing import Any, Final

from cluster import names
from devcluster import probe

WAYS: Final[Mapping[str, str]] = {"claim": "node-b", "resource": "node-a"}
"""How GPUs are given -> the node where they are."""
GPUS: Final = 2
"""Of each node."""
TEMPLATE: Final = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one-gpu"},
    "spec": {
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": names.DRA_DRIVER}}]}}
    },
}
FLOOR: Final = "the same pod with nvidia.com/gpu"
_SAFE: Final = {names.CHECKPOINT_AT: "2100-01-01T00:00:00Z"}
"""A checkpoint in the future counts as one of now: this pod loses nothing, and is the victim."""


def body(name: str, way: str, *, safe: bool = False) -> dict[str, Any]:
    """A pod with one GPU."""
    extra: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": WAYS[way]}}
    container = probe.container("main", gpus=1)
    if way == "claim":
        extra["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
        container = probe.container("main") | {"resources": {"claims": [{"name": "gpu"}]}}
    made = probe.pod(name, [container], extra=extra)
    made["metadata"]["annotations"].update(_SAFE if safe else {})
    return made
