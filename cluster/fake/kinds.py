"""How kinds of objects differ on the real API server, as far as our parts and tests ask for them.

Each set mirrors what the strategies of kube-apiserver 1.37 say (``AllowUnconditionalUpdate``,
``PrepareForUpdate`` and the like). A kind that is in none of them is simple: one endpoint for all of it, no
generation, deleted at once.
"""

from typing import Final

PODS: Final = "pods"
NAMESPACES: Final = "namespaces"
PRIORITY_CLASSES: Final = "priorityclasses"
_BOOKINGS: Final = "bookings"
_WEBHOOKS: Final = "mutatingwebhookconfigurations"

WITH_STATUS: Final = frozenset({PODS, "nodes", _BOOKINGS})
"""``status`` is written through the subresource of that name alone."""

STATUS_ALONE: Final = frozenset({_BOOKINGS})
"""A custom resource's status door lets nothing else through; those of pods and nodes take metadata, too."""

BORN_WITH_STATUS: Final = frozenset({"nodes"})
"""May bring a status when they are created: kubelets register so."""

COUNTED: Final = frozenset({PODS, "podtemplates", _BOOKINGS, _WEBHOOKS})
"""Have a ``metadata.generation`` that rises with every change outside metadata and status."""

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
    "secrets": frozenset({"metadata.name", "metadata.namespace", "type"}),
    NAMESPACES: frozenset({"metadata.name", "status.phase"}),
}
"""What a field selector may ask for."""

FIELDS_OF_THE_REST: Final = frozenset({"metadata.name", "metadata.namespace"})
