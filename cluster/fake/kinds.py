"""How kinds of objects differ on the real API server, as far as our parts and tests use them.

Each set mirrors the strategies of kube-apiserver 1.37 (``AllowUnconditionalUpdate``, ``PrepareForUpdate`` and
the like). A kind that is in none of them is simple: one endpoint for all of it, no generation, deleted at
once.
"""

from typing import Final

PODS: Final = "pods"
NAMESPACES: Final = "namespaces"
PRIORITY_CLASSES: Final = "priorityclasses"
_BOOKINGS: Final = "bookings"
_WEBHOOKS: Final = "mutatingwebhookconfigurations"

WITH_STATUS: Final = frozenset({PODS, "nodes", _BOOKINGS, "resourceclaims"})
"""Kinds whose ``status`` is written only through the subresource of that name."""

STATUS_ALONE: Final = frozenset({_BOOKINGS})
"""Custom resources, whose status endpoint writes only that; those of pods and nodes write metadata, too."""

BORN_WITH_STATUS: Final = frozenset({"nodes"})
"""Kinds that may have a status when they are created: kubelets register like this."""

COUNTED: Final = frozenset({PODS, "podtemplates", _BOOKINGS, _WEBHOOKS})
"""Kinds with a ``metadata.generation`` that rises with every change outside metadata and status."""

FIELDS: Final[dict[str, frozenset[str]]] = {
    PODS: frozenset(
        {
            "metadata.name",
            "metadata.namespace",
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        }
    ),
    "nodes": frozenset({"metadata.name", "spec.unschedulable"}),
    "events": frozenset(
        {
            "metadata.name",
            "metadata.namespace",
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        }
    ),
    "resourceslices": frozenset({"metadata.name", "spec.nodeName", "spec.driver"}),
    "secrets": frozenset({"metadata.name", "metadata.namespace", "type"}),
    NAMESPACES: frozenset({"metadata.name", "status.phase"}),
}
"""Kind -> the fields that a field selector may use."""

FIELDS_OF_THE_REST: Final = frozenset({"metadata.name", "metadata.namespace"})
