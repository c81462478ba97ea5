"""The replacement of an evicted pod: without a GPU, or as it was (law L4).

Used by ``pod_evictor``. Works on the raw ``spec``, which keeps fields that we do not know.
"""

from datetime import datetime
from typing import Any, Final

import msgspec

from booking.gpu_stripping import spec_without_gpu
from booking.reclaimer.evictor import Back, Reason
from cluster import names
from cluster.kube.resources import WholePod
from cluster.objects.failed_pods import FailedStatus
from cluster.objects.meta import Meta
from cluster.objects.pods import Pod, first_created
from cluster.objects.replaced_fields import replaced_in

Json = dict[str, Any]

API_ACCESS_VOLUME: Final = "kube-api-access-"
"""The volume that the API server injects into every pod: it does so again."""
DEFAULT_SCHEDULER: Final = "default-scheduler"
_KEPT_STATE: Final = frozenset({names.USER, names.NO_USER})
"""Our annotations on a pod that stay on its replacement."""
_LEFT_BEHIND: Final = frozenset(
    {"nodeName", "priority", "preemptionPolicy", "ephemeralContainers", "schedulerName", "priorityClassName"}
)
"""Of ``spec``: not written by the user (but by scheduler, admission, debuggers), or restored below."""


def replacement_pod(pod: WholePod, *, back: Back, reason: Reason) -> Json:
    """Metadata and spec of the pod that comes back: ``{"metadata": {...}, "spec": {...}}``.

    Without a GPU: no container requests GPUs, and ``NVIDIA_VISIBLE_DEVICES`` is ``none`` in all of them; what
    ties the pod to GPU nodes is dropped. As it was: it keeps its requests, counts how often it was evicted
    and rejected, and MAIA's grant still counts. Either way the values that admission replaced are restored;
    name, namespace, labels, requests, tolerations and everything else of the containers stay. It names the
    pod that it replaces (``names.RECREATED_FROM``) and that pod's age (``names.FIRST_CREATED``).
    """
    metadata, spec = _metadata(pod.metadata), _spec(pod)
    if back == "without-gpu":
        return {"metadata": metadata, "spec": spec_without_gpu(spec)}
    metadata["annotations"] |= _counts(pod, reason) | _of_maia(pod.metadata)
    return {"metadata": metadata, "spec": spec}


def refusals_after(meta: Meta, *, has_begun: bool) -> int:
    """How often kubelets have rejected a pod in a row, this time included: a pod that has run starts over."""
    return (0 if has_begun else meta.count(names.KUBELET_REJECTIONS)) + 1


def _counts(pod: WholePod, reason: Reason) -> dict[str, str]:
    """The counts of evictions and rejections, for a pod that comes back as it was."""
    evictions = pod.metadata.count(names.EVICTIONS) + (reason == "evicted")
    refusals = 0
    if reason == "refused":
        status = msgspec.convert(pod.status, FailedStatus)
        refusals = refusals_after(pod.metadata, has_begun=status.has_begun)
    counts = {names.EVICTIONS: evictions, names.KUBELET_REJECTIONS: refusals}
    return {key: str(count) for key, count in counts.items() if count}


def _of_maia(meta: Meta) -> dict[str, str]:
    """MAIA's ``terminate-at``, if it is not ours: where MAIA is not honoured, admission drops it."""
    until = meta.annotation(names.TERMINATE_AT)
    return {} if until is None or meta.annotation(names.BOOKING) else {names.TERMINATE_AT: until}


def _metadata(meta: Meta) -> Json:
    kept = {
        key: value
        for key, value in (meta.annotations or {}).items()
        if not names.is_ours(key) or key in _KEPT_STATE
    }
    kept[names.RECREATED_FROM] = meta.uid
    kept[names.FIRST_CREATED] = instant(first_created(Pod(metadata=meta)))
    # A Job takes over pods that carry its uid, and then ends them.
    former = meta.controller.uid if meta.controller else None
    labels = {
        key: value for key, value in (meta.labels or {}).items() if not names.is_ours(key) and value != former
    }
    return {"name": meta.name, "namespace": meta.namespace, "labels": labels, "annotations": kept}


def instant(moment: datetime) -> str:
    """An aware UTC instant as RFC 3339, whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _spec(pod: WholePod) -> Json:
    spec = {key: value for key, value in pod.spec.items() if key not in _LEFT_BEHIND}
    before = replaced_in(pod.metadata.annotations or {})
    spec["schedulerName"] = before.scheduler_name or DEFAULT_SCHEDULER
    if before.priority_class_name:
        spec["priorityClassName"] = before.priority_class_name
    return _without_injected(spec)


def _without_injected(spec: Json) -> Json:
    """The spec without the volumes that the API server injects into every pod."""
    injected = _injected_volumes(spec)
    after = dict(spec)
    for group in ("initContainers", "containers"):
        if after.get(group):
            after[group] = [_unmounted(container, injected) for container in after[group]]
    if after.get("volumes"):
        after["volumes"] = [volume for volume in after["volumes"] if volume.get("name") not in injected]
    return after


def _injected_volumes(spec: Json) -> frozenset[str]:
    projected = (volume.get("name", "") for volume in spec.get("volumes") or () if "projected" in volume)
    return frozenset(name for name in projected if name.startswith(API_ACCESS_VOLUME))


def _unmounted(container: Json, injected: frozenset[str]) -> Json:
    if not container.get("volumeMounts"):
        return container
    kept = [mount for mount in container["volumeMounts"] if mount.get("name") not in injected]
    return {**container, "volumeMounts": kept}
