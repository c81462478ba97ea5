"""The immutable fields of a stored pod: nearly all of its spec.

As the real server validates updates: images may change, tolerations may only be added, gates only removed,
and a deadline only shortened. While a pod is gated, its node selector and node affinity may be narrowed. Only
a Binding sets the node, and only a resize (which none of our parts requests) sets resources.
"""

from typing import Any, Final

Json = dict[str, Any]

_FREE: Final = ("tolerations", "schedulingGates", "activeDeadlineSeconds")
_CONTAINERS: Final = ("containers", "initContainers")
_REST: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`, "
    "`spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, "
    "`spec.tolerations` (only additions to existing tolerations), "
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def forbidden_change(before: Json, after: Json) -> str | None:
    """Why the spec of a pod cannot change like this; None if it can."""
    old, new = before.get("spec") or {}, after.get("spec") or {}
    if old == new:
        return None
    if any(one not in (new.get("tolerations") or ()) for one in old.get("tolerations") or ()):
        return "spec.tolerations: Forbidden: existing toleration can not be modified"
    if any(one not in (old.get("schedulingGates") or ()) for one in new.get("schedulingGates") or ()):
        return "spec.schedulingGates: Forbidden: only deletion is allowed"
    if not _is_shorter(old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")):
        return "spec.activeDeadlineSeconds: Invalid value: must be less than or equal to previous value"
    if old.get("schedulingGates"):
        if problem := _loosened(old, new):
            return problem
        old, new = _without_placement(old), _without_placement(new)
    return f"spec: Forbidden: {_REST}" if _fixed(old) != _fixed(new) else None


def _fixed(spec: Json) -> Json:
    """The part of the spec that must not change."""
    rest = {key: value for key, value in spec.items() if key not in _FREE}
    for key in _CONTAINERS:
        rest[key] = [{**container, "image": None} for container in spec.get(key) or ()]
    return rest


def _is_shorter(old: int | None, new: int | None) -> bool:
    return old is None or (new is not None and new <= old)


def _without_placement(spec: Json) -> Json:
    affinity = {k: v for k, v in (spec.get("affinity") or {}).items() if k != "nodeAffinity"}
    rest = {key: value for key, value in spec.items() if key not in {"nodeSelector", "affinity"}}
    return {**rest, "affinity": affinity}


def _loosened(old: Json, new: Json) -> str | None:
    """Why a gated pod's placement cannot change like this; None if it is only narrowed."""
    chosen = new.get("nodeSelector") or {}
    if any(chosen.get(key) != value for key, value in (old.get("nodeSelector") or {}).items()):
        return "spec.nodeSelector: Invalid value: only additions to spec.nodeSelector are allowed"
    before, after = _terms(old), _terms(new)
    if before and len(before) != len(after):
        return (
            "spec.affinity.nodeAffinity: Invalid value: no additions/deletions to non-empty NodeSelectorTerms"
        )
    if not all(_only_added(one, other) for one, other in zip(before, after, strict=False)):
        return "spec.affinity.nodeAffinity: Invalid value: only additions are allowed"
    return None


def _terms(spec: Json) -> list[Json]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms: list[Json] = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get(
        "nodeSelectorTerms"
    ) or []
    return terms


def _only_added(old: Json, new: Json) -> bool:
    lists = ("matchExpressions", "matchFields")
    if not any(old.get(key) for key in lists):
        return not any(new.get(key) for key in lists)
    return all((new.get(key) or [])[: len(old.get(key) or [])] == (old.get(key) or []) for key in lists)
