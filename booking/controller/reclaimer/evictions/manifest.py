"""The manifest of a stored pod: what its user had sent, without what others have written since. Pure.

A stored object is not a manifest (ADR 66). What admission plugins, the API server, kube-scheduler and
debuggers wrote may be refused when it is sent again, or hide what they would write today. Defaults that
everybody gets again, such as ``dnsPolicy`` or tolerations of lost nodes, mean the same when they are sent.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from cluster import names
from cluster.objects.failed_pods import FailedMeta
from cluster.objects.limit_ranges import Group, Part, filled_in

Json = dict[str, Any]

NOT_SENT: Final[Mapping[str, str]] = {
    "nodeName": "kube-scheduler, by its Binding",
    "priority": "the admission plugin Priority, from the class",
    "preemptionPolicy": "the admission plugin Priority, from the class",
    "overhead": "the admission plugin RuntimeClass; any other value is refused",
    "ephemeralContainers": "kubectl debug; refused at a creation",
}
"""Field of ``spec`` -> who writes it. A user who sets it says no more than the cluster does, or loses it."""
TOPOLOGY_LABELS: Final = frozenset({"topology.kubernetes.io/zone", "topology.kubernetes.io/region"})
"""Copied from the node at the Binding (admission plugin PodTopologyLabels)."""
TOKEN_VOLUME: Final = re.compile("kube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}")
"""The volume with a token that the admission plugin ServiceAccount puts into every pod."""
TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
RESIZE: Final = "resize"
"""The subresource by which a user changes the resources of a running pod."""
_TERMS: Final = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_GROUPS: Final[tuple[Group, ...]] = ("initContainers", "containers")


def sent_labels(meta: FailedMeta) -> dict[str, str]:
    """The pod's labels without those of its node."""
    return {key: value for key, value in (meta.labels or {}).items() if key not in TOPOLOGY_LABELS}


def sent_annotations(meta: FailedMeta) -> dict[str, str]:
    """The pod's annotations without LimitRanger's record."""
    return {key: value for key, value in (meta.annotations or {}).items() if key != names.LIMIT_RANGER}


def sent_spec(stored: Mapping[str, Any], meta: FailedMeta) -> Json:
    """The pod's ``spec`` without what others have written; nothing in it is changed."""
    spec = {key: value for key, value in stored.items() if key not in NOT_SENT}
    spec = _without_token(spec)
    spec |= {group: _without_defaults(spec[group], group, meta) for group in _GROUPS if spec.get(group)}
    return _with_own_selectors(spec, frozenset(meta.labels or ()))


# --- the volume with the token ------------------------------------------------------------------------------


def _without_token(spec: Json) -> Json:
    injected = _token_volumes(spec)
    after = dict(spec)
    for group in _GROUPS:
        if after.get(group):
            after[group] = [_unmounted(container, injected) for container in after[group]]
    if after.get("volumes"):
        after["volumes"] = [volume for volume in after["volumes"] if volume.get("name") not in injected]
    return after


def _token_volumes(spec: Json) -> frozenset[str]:
    """The injected volumes: named as such, projected, and mounted where tokens are, nowhere else."""
    projected = (volume.get("name", "") for volume in spec.get("volumes") or () if "projected" in volume)
    containers = [container for group in _GROUPS for container in spec.get(group) or ()]
    mounts = [mount for container in containers for mount in container.get("volumeMounts") or ()]
    elsewhere = {mount.get("name") for mount in mounts if mount.get("mountPath") != TOKEN_PATH}
    return frozenset(name for name in projected if TOKEN_VOLUME.fullmatch(name) and name not in elsewhere)


def _unmounted(container: Json, injected: frozenset[str]) -> Json:
    if not container.get("volumeMounts"):
        return container
    kept = [mount for mount in container["volumeMounts"] if mount.get("name") not in injected]
    return {**container, "volumeMounts": kept}


# --- amounts from LimitRanges -------------------------------------------------------------------------------


def _without_defaults(containers: list[Json], group: Group, meta: FailedMeta) -> list[Json]:
    """The containers without amounts that LimitRanges have set, but those that were resized since."""
    recorded = filled_in(meta.annotations or {})
    is_resized = any(writer.subresource == RESIZE for writer in meta.managed_fields or ())
    return [
        _asking(one, recorded.get((group, one.get("name", "")), {}), is_resized=is_resized)
        for one in containers
    ]


def _asking(container: Json, by_default: Mapping[Part, frozenset[str]], *, is_resized: bool) -> Json:
    if not by_default:
        return container
    resources = dict(container.get("resources") or {})
    for part, given in by_default.items():
        set_by_others = frozenset(filter(names.is_gpu_request, given)) if is_resized else given
        resources[part] = {k: v for k, v in (resources.get(part) or {}).items() if k not in set_by_others}
    return {**container, "resources": resources}


# --- selectors to which the API server has added labels of the pod ------------------------------------------


def _with_own_selectors(spec: Json, labels: frozenset[str]) -> Json:
    after = dict(spec)
    if after.get("topologySpreadConstraints"):
        after["topologySpreadConstraints"] = [_own(one, labels) for one in after["topologySpreadConstraints"]]
    affinity = dict(after.get("affinity") or {})
    for kind in ("podAffinity", "podAntiAffinity"):
        if affinity.get(kind):
            affinity[kind] = {**affinity[kind], **_own_terms(affinity[kind], labels)}
            after["affinity"] = affinity
    return after


def _own_terms(affinity: Json, labels: frozenset[str]) -> Json:
    required, preferred = _TERMS
    terms = {required: [_own(term, labels) for term in affinity.get(required) or ()]}
    terms[preferred] = [
        {**term, "podAffinityTerm": _own(term.get("podAffinityTerm") or {}, labels)}
        for term in affinity.get(preferred) or ()
    ]
    return {key: value for key, value in terms.items() if value}


def _own(term: Json, labels: frozenset[str]) -> Json:
    """A term or constraint whose selector has no requirement that was made from its label keys."""
    selector = term.get("labelSelector")
    if not selector or not selector.get("matchExpressions"):
        return term
    expressions = list(selector["matchExpressions"])
    _take_last(expressions, "In", labels & frozenset(term.get("matchLabelKeys") or ()))
    _take_last(expressions, "NotIn", labels & frozenset(term.get("mismatchLabelKeys") or ()))
    rest = {key: value for key, value in selector.items() if key != "matchExpressions"}
    return {**term, "labelSelector": {**rest, "matchExpressions": expressions} if expressions else rest}


def _take_last(expressions: list[Json], operator: str, keys: Iterable[str]) -> None:
    """Take out what the API server has appended for each key: one value, in or not in."""
    for key in keys:
        for at in reversed(range(len(expressions))):
            one = expressions[at]
            if (one.get("key"), one.get("operator"), len(one.get("values") or ())) == (key, operator, 1):
                del expressions[at]
                break
