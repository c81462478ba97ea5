"""A pod's ``spec`` without GPUs (DESIGN 2): for admission, and for comebacks without a GPU. Pure.

Works on the raw JSON, so that fields unknown to us are kept.
"""

from collections.abc import Mapping
from typing import Any, Final

from cluster import names

Json = dict[str, Any]

GPU_LABELS: Final = (names.NVIDIA_PREFIX, names.MODEL_LABEL)
"""Prefixes of node labels about GPUs, NVIDIA's and our own: only GPU nodes have them."""
GPU_RUNTIME: Final = "nvidia"
"""Part of the name of any RuntimeClass for GPU containers."""


def spec_without_gpu(before: Json) -> Json:
    """The spec of a pod that requests no GPU and is not tied to nodes with GPUs.

    No container requests GPUs, and ``NVIDIA_VISIBLE_DEVICES`` is ``none`` in all of them; required terms on
    labels about GPUs and a GPU RuntimeClass are dropped. Everything else stays.
    """
    spec = dict(before)
    if GPU_RUNTIME in (spec.get("runtimeClassName") or ""):
        spec.pop("runtimeClassName")
        spec.pop("overhead", None)
    for group in ("initContainers", "containers"):
        if spec.get(group):
            spec[group] = [_container(container) for container in spec[group]]
    if spec.get("resources"):
        spec["resources"] = _resources(spec["resources"])
    return _anywhere(spec)


def _container(container: Json) -> Json:
    after = dict(container)
    if after.get("resources"):
        after["resources"] = _resources(after["resources"])
    after["env"] = _without_visible_devices(after.get("env") or [])
    return after


def _without_visible_devices(env: list[Json]) -> list[Json]:
    """The variables, ``NVIDIA_VISIBLE_DEVICES`` being ``none``: in its place, or at the end."""
    none = {"name": names.VISIBLE_DEVICES_VARIABLE, "value": "none"}
    after = [none if one.get("name") == none["name"] else one for one in env]
    return after if none in after else [*after, none]


def _resources(resources: Json) -> Json:
    after = dict(resources)
    for kind in ("limits", "requests"):
        if after.get(kind):
            after[kind] = {key: value for key, value in after[kind].items() if not names.is_gpu_resource(key)}
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
