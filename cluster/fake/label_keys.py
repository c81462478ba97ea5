"""Label keys of a new pod: the API server adds them to the selectors beside which they stand, once.

Kubernetes 1.34 and later (pkg/registry/core/pod/strategy.go, ``applyLabelKeysToLabelSelector``).
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from cluster.fake.errors import invalid
from cluster.kube.errors import Request

Json = dict[str, Any]

_OPERATORS: Final = {"matchLabelKeys": "In", "mismatchLabelKeys": "NotIn"}


def merged(request: Request, pod: Json) -> Json:
    """The pod with selectors that name the values of its own labels.

    Raises:
        Unprocessable: a key stands in ``matchLabelKeys`` and in the selector.
    """
    if not any(pod["spec"].get(key) for key in ("topologySpreadConstraints", "affinity")):
        return pod
    after = deepcopy(pod)
    labels = after["metadata"].get("labels") or {}
    for term in _terms(after["spec"]):
        selector = term.get("labelSelector")
        if selector is None:
            continue
        expressions = [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for field, operator in _OPERATORS.items()
            for key in term.get(field) or ()
            if key in labels
        ]
        if expressions:
            selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *expressions]
        named = [
            *(selector.get("matchLabels") or ()),
            *(one["key"] for one in selector.get("matchExpressions") or ()),
        ]
        for key in term.get("matchLabelKeys") or ():
            if named.count(key) > 1:
                raise invalid(request, after, f'"{key}": exists in both matchLabelKeys and labelSelector')
    return after


def _terms(spec: Json) -> Iterator[Json]:
    yield from spec.get("topologySpreadConstraints") or ()
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = (spec.get("affinity") or {}).get(kind) or {}
        yield from terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for one in terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield one.get("podAffinityTerm") or {}
