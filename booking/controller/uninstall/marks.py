"""Our marks on an object that must be removed before the product is. Pure.

A pod keeps the marks of its history: its owner, its assignment, what it was before. They are harmless,
disappear with the pod, and let a new installation find running pods as they were. Orders, gates and holds are
removed: no component is left to carry them out, and that must not happen years later.
"""

from collections.abc import Iterable
from typing import Any, Final

from cluster import names
from cluster.objects.meta import Meta
from cluster.objects.node_labels import written_labels
from cluster.objects.pods import Pod
from cluster.objects.scheduling_gates import is_queued, other_gates

Json = dict[str, Any]

STORY: Final = frozenset(
    {
        names.USER,
        names.NO_USER,
        names.ADMITTED,
        names.REPLACED,
        names.STRIPPED,
        names.ASSIGNED,
        names.SHARING_MODE,
        names.RECREATED_FROM,
        names.FIRST_CREATED,
        names.EVICTIONS,
        names.KUBELET_REJECTIONS,
        names.COMEBACK_REASON,
        names.COMEBACK_MESSAGE,
    }
)
"""Annotations that stay on a pod."""
_LEASES: Final = frozenset(
    {names.CONTROLLER_LEASE, names.SCHEDULER_LEASE, names.EXTENDER_LEASE, names.VERDICT_LEASE}
)


def off_a_pod(pod: Pod) -> Json | None:
    """The patch that removes our marks from a pod, None if it has none."""
    meta = pod.metadata
    of_maia = names.TERMINATE_AT if meta.annotation(names.BOOKING) is None else None
    change = _without(meta, kept=STORY | {of_maia})
    spec = {"schedulingGates": [{"name": gate} for gate in other_gates(pod)]} if is_queued(pod) else {}
    if names.COMEBACK in (meta.finalizers or ()):
        change["finalizers"] = [one for one in meta.finalizers or () if one != names.COMEBACK]
    if not change and not spec:
        return None
    change["uid"] = meta.uid
    if spec or "finalizers" in change:
        change["resourceVersion"] = meta.resource_version  # lists are replaced whole: only as they were read
    return {"metadata": change} | ({"spec": spec} if spec else {})


def off_a_node(meta: Meta) -> Json | None:
    """The patch that removes from a Node what its agent wrote, and maintenance; None if there is nothing."""
    change = _without(meta, kept=frozenset())
    if (
        meta.annotation(names.NODE_KEPT) is not None
        and meta.annotation(names.SCALE_DOWN_DISABLED) is not None
    ):
        change["annotations"] = {**change.get("annotations", {}), names.SCALE_DOWN_DISABLED: None}
    if written := written_labels(meta):
        change["labels"] = {**dict.fromkeys(sorted(written)), **change.get("labels", {})}
    return {"metadata": {"uid": meta.uid, **change}} if change else None


def is_left(lease: str, *, keeps_bookings: bool) -> bool:
    """Whether a Lease is one of ours that is not needed any more.

    The mirror's Lease records which change of the booking database the cluster has seen: it stays with the
    bookings.
    """
    if lease == names.MIRROR_LEASE:
        return not keeps_bookings
    return lease in _LEASES or names.node_of_lease(lease) is not None


def _without(meta: Meta, *, kept: frozenset[str | None]) -> Json:
    ours: Json = {
        "annotations": _ours(meta.annotations or (), kept),
        "labels": _ours(meta.labels or (), kept),
    }
    return {part: keys for part, keys in ours.items() if keys}


def _ours(keys: Iterable[str], kept: frozenset[str | None]) -> dict[str, None]:
    return {key: None for key in sorted(keys) if names.is_ours(key) and key not in kept}
