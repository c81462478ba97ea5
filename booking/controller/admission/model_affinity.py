"""A pod's wish for a model as a required node affinity: kube-scheduler itself rejects other nodes. Pure.

A pod that an extender has rejected is tried again after any change of any pod, whatever the extender says.
One that only kube-scheduler's own filters have rejected waits until something changes that would help it:
here a label of a node, or a GPU that becomes free. So pods that wait for a full model do not take scheduler
and API server from everybody else.

Agents label their nodes with all of their models, and mark that they have. A node without the mark is not
excluded: one that has just joined or does not exist yet, one without an agent, or any, where agents write no
labels. What the labels let pass the extender decides, as before.
"""

import re
from typing import Any, Final

from booking.controller.admission.pod_reader import Json
from cluster import names
from cluster.objects.inventory import LONGEST_LABEL
from cluster.objects.pods import models_in

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_MIG_PROFILE: Final = re.compile(r"[0-9]+(c\.[0-9]+)?g\.")
"""Beginning of a MIG profile, which no label of a node has as its model."""
_UNKNOWN: Final = {"matchExpressions": [{"key": names.MODELS_LABELLED, "operator": "DoesNotExist"}]}
"""Nodes that may have any model. Nobody else writes this term: by it ours are known again."""


def with_model_affinity(spec: Json, wish: str | None) -> Json:
    """The spec with the terms, in place of those that it was given for another wish.

    Without them where labels cannot express the wish, or the pod has required terms of its own: those would
    have to be rewritten, and then its manifest could not be applied to it again.

    Args:
        spec: of a pod with GPUs.
        wish: its annotation ``names.MODEL``.
    """
    bare, terms = without_model_affinity(spec), _terms(wish)
    affinity = bare.get("affinity") or {}
    of_nodes = affinity.get("nodeAffinity") or {}
    if not terms or of_nodes.get(_REQUIRED) or bare.get("nodeName") or bare.get("resourceClaims"):
        return bare
    of_nodes = {**of_nodes, _REQUIRED: {"nodeSelectorTerms": terms}}
    return {**bare, "affinity": {**affinity, "nodeAffinity": of_nodes}}


def without_model_affinity(spec: Json) -> Json:
    """The spec without the terms that ``with_model_affinity`` has written."""
    affinity = spec.get("affinity") or {}
    of_nodes = affinity.get("nodeAffinity") or {}
    terms = (of_nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    if _UNKNOWN not in terms:
        return spec
    rest = {key: value for key, value in of_nodes.items() if key != _REQUIRED}
    others = {key: value for key, value in affinity.items() if key != "nodeAffinity"}
    affinity = {**others, **({"nodeAffinity": rest} if rest else {})}
    without = {key: value for key, value in spec.items() if key != "affinity"}
    return {**without, **({"affinity": affinity} if affinity else {})}


def _terms(wish: str | None) -> list[dict[str, Any]]:
    """Alternatives: a node with one of the models, or one of unknown models; empty without a wish."""
    labels = sorted({model[:LONGEST_LABEL].strip("-_.") for model in models_in(wish)})
    if not labels or any(not label or _MIG_PROFILE.match(label) for label in labels):
        return []
    wanted = [{"key": f"{names.MODEL_LABEL}{label}", "operator": "Exists"} for label in labels]
    return [*({"matchExpressions": [one]} for one in wanted), _UNKNOWN]
