"""A pod's ``spec`` without GPUs (DESIGN 2): for admission, and for comebacks without a GPU. Pure.

Works on the raw JSON, so that fields unknown to us are kept.

An amount is taken away, or is 0 where a LimitRange would fill it in again (ADR 66). Not 0 everywhere: a
kubelet rejects a container that names a resource of whose devices none is healthy, even with the amount 0.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from cluster import names
from cluster.objects.limit_ranges import Group, filled_in

Json = dict[str, Any]

GPU_LABELS: Final = (names.NVIDIA_PREFIX, names.MODEL_LABEL)
"""Prefixes of node labels about GPUs, NVIDIA's and our own: only GPU nodes have them."""
GPU_RUNTIME: Final = "nvidia"
"""Part of the name of any RuntimeClass for GPU containers."""


NOTHING: Final[frozenset[str]] = frozenset()
GROUPS: Final[tuple[Group, ...]] = ("initContainers", "containers")
_KINDS: Final = ("limits", "requests")


def spec_without_gpu(
    before: Json, *, zero: frozenset[str] = NOTHING, claims: frozenset[str] = NOTHING
) -> Json:
    """The spec of a pod that requests no GPU and is not tied to nodes with GPUs.

    No container requests GPUs, or amounts of them, which would use up quota. ``NVIDIA_VISIBLE_DEVICES`` is
    ``none`` in all of them; required terms on labels about GPUs and a GPU RuntimeClass are dropped. All else
    stays. A claim that other pods share is the user's, and stays; this pod only does not name it any more.

    Args:
        before: the spec with GPUs.
        zero: the GPU resources that a LimitRange would fill in: every container gets 0 of them.
        claims: what the pod calls its claims for GPUs, extended resources among them; those of other drivers
            stay.
    """
    spec = _without_claims(before, claims) if claims else dict(before)
    if GPU_RUNTIME in (spec.get("runtimeClassName") or ""):
        spec.pop("runtimeClassName")
        spec.pop("overhead", None)
    spec |= _containers(spec, lambda _, container: _container(container, zero))
    if spec.get("resources"):
        spec["resources"] = _without(spec["resources"], names.is_gpu_request)
    return _anywhere(spec)


def _without_claims(spec: Json, claims: frozenset[str]) -> Json:
    after = {**spec, **_containers(spec, lambda _, container: _unclaiming(container, claims))}
    kept = [one for one in spec.get("resourceClaims") or () if one.get("name") not in claims]
    after.pop("resourceClaims", None)
    return {**after, "resourceClaims": kept} if kept else after


def _unclaiming(container: Json, claims: frozenset[str]) -> Json:
    resources = dict(container.get("resources") or {})
    if not resources:
        return container
    if resources.get("claims"):
        resources["claims"] = [one for one in resources["claims"] if one.get("name") not in claims]
    return {**container, "resources": _without(resources, claims.__contains__)}


def named_gpu_resources(spec: Mapping[str, Any]) -> frozenset[str]:
    """The GPU resources and amounts of memory or compute that any container names, whatever the number."""
    containers = [container for group in GROUPS for container in spec.get(group) or ()]
    resources = [container.get("resources") or {} for container in containers]
    named = (key for one in resources for kind in _KINDS for key in one.get(kind) or ())
    return frozenset(filter(names.is_gpu_request, named))


def spec_without_gpu_defaults(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Json:
    """The spec with 0 of the GPUs that only a LimitRange has given to a container.

    An amount that the user gave as a limit or as a request stays.
    """
    recorded = filled_in(annotations)

    def given(group: Group, container: Json) -> Json:
        by_default = recorded.get((group, container.get("name", "")), {})
        both = by_default.get("limits", NOTHING) & by_default.get("requests", NOTHING)
        gpus = frozenset(filter(names.is_gpu_request, both))
        return _with_zero(container, gpus) if gpus else container

    return {**spec, **_containers(spec, given)}


def spec_with_zero(spec: Mapping[str, Any], resources: frozenset[str]) -> Json:
    """The spec with 0 of these resources in every container."""
    return {**spec, **_containers(spec, lambda _, one: _with_zero(one, resources) if resources else one)}


def spec_without_amounts(spec: Mapping[str, Any]) -> Json:
    """The spec without amounts of GPUs, for a pod that has lost its GPUs to another webhook."""

    def bare(_: Group, container: Json) -> Json:
        before = container.get("resources") or {}
        if not any(names.is_gpu_amount(key) for kind in _KINDS for key in before.get(kind) or ()):
            return container
        return {**container, "resources": _without(before, names.is_gpu_amount)}

    return {**spec, **_containers(spec, bare)}


def _containers(spec: Mapping[str, Any], change: Callable[[Group, Json], Json]) -> Json:
    """The containers and init containers, changed."""
    return {group: [change(group, one) for one in spec[group]] for group in GROUPS if spec.get(group)}


def _with_zero(container: Json, resources: frozenset[str]) -> Json:
    before = container.get("resources") or {}
    none = dict.fromkeys(sorted(resources), "0")
    amounts = {kind: {**(before.get(kind) or {}), **none} for kind in _KINDS}
    return {**container, "resources": {**before, **amounts}}


def _container(container: Json, zero: frozenset[str]) -> Json:
    after = dict(container)
    if after.get("resources"):
        after["resources"] = _without(after["resources"], names.is_gpu_request)
    if zero:
        after = _with_zero(after, zero)
    after["env"] = _without_visible_devices(after.get("env") or [])
    return after


def _without_visible_devices(env: list[Json]) -> list[Json]:
    """The variables, ``NVIDIA_VISIBLE_DEVICES`` being ``none``: in its place, or at the end."""
    none = {"name": names.VISIBLE_DEVICES_VARIABLE, "value": "none"}
    after = [none if one.get("name") == none["name"] else one for one in env]
    return after if none in after else [*after, none]


def _without(resources: Json, is_dropped: Callable[[str], bool]) -> Json:
    after = dict(resources)
    for kind in _KINDS:
        if after.get(kind):
            after[kind] = {key: value for key, value in after[kind].items() if not is_dropped(key)}
    return after


def _anywhere(spec: Json) -> Json:
    """The spec without what ties it to nodes with GPUs."""
    after = dict(spec)
    if after.get("nodeSelector"):
        after["nodeSelector"] = {k: v for k, v in after["nodeSelector"].items() if not _is_about_gpus(k)}
    node_affinity = (after.get("affinity") or {}).get("nodeAffinity")
    if node_affinity:
        after["affinity"] = {**after["affinity"], "nodeAffinity": _node_affinity(node_affinity)}
    return after


def _node_affinity(affinity: Json) -> Json:
    """Required terms without expressions about GPU nodes.

    The terms are alternatives, and one without any expression matches no node. A term that required only a
    GPU node is now true everywhere, so the whole requirement is dropped.
    """
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = (affinity.get(required) or {}).get("nodeSelectorTerms")
    if not terms:
        return affinity
    loosened = [_term(term) for term in terms]
    after = dict(affinity)
    if any(not loose and _expressions(term) for loose, term in zip(loosened, terms, strict=True)):
        del after[required]
    else:
        after[required] = {**affinity[required], "nodeSelectorTerms": loosened}
    return after


def _term(term: Json) -> Json:
    """The term without expressions about GPU nodes; empty keys are left out."""
    expressions = [one for one in term.get("matchExpressions") or () if not _is_about_gpus(one.get("key"))]
    after = {key: value for key, value in term.items() if key != "matchExpressions" and value}
    return {**after, "matchExpressions": expressions} if expressions else after


def _expressions(term: Mapping[str, Any]) -> bool:
    return bool(term.get("matchExpressions") or term.get("matchFields"))


def _is_about_gpus(key: str | None) -> bool:
    return (key or "").startswith(GPU_LABELS)
