"""The replacement of an evicted pod: without a GPU, or as it was (law L4).

Used by ``pod_evictor``. Works on the raw ``spec``, which keeps fields that we do not know.
"""

from datetime import datetime
from typing import Any, Final

import msgspec

from booking.controller.gpu_stripping import NOTHING, spec_without_gpu
from booking.controller.reclaimer.evictions.manifest import sent_annotations, sent_labels, sent_spec
from booking.controller.reclaimer.evictor import Back, Reason
from cluster import dialect_names, names
from cluster.kube.resources import WholePod
from cluster.objects.failed_pods import FailedMeta, FailedStatus
from cluster.objects.meta import Meta
from cluster.objects.pods import Pod, first_created
from cluster.objects.replaced_fields import Replaced, replaced_in

Json = dict[str, Any]

DEFAULT_SCHEDULER: Final = "default-scheduler"
_KEPT_STATE: Final = frozenset({names.USER, names.NO_USER, names.GROUPS})
"""Our annotations on a pod that stay on its replacement."""
_OUR_CLASSES: Final = frozenset({names.BOOKED_CLASS, names.OPPORTUNISTIC_CLASS})


def replacement_pod(pod: WholePod, *, back: Back, reason: Reason, zero: frozenset[str] = NOTHING) -> Json:
    """Metadata and spec of the pod that comes back: ``{"metadata": {...}, "spec": {...}}``.

    Without a GPU: no container requests GPUs, and ``NVIDIA_VISIBLE_DEVICES`` is ``none`` in all of them; what
    ties the pod to GPU nodes is dropped. As it was: it keeps its requests, counts how often it was evicted
    and rejected, and MAIA's grant still counts. Either way the values that admission replaced are restored;
    name, namespace, labels, requests, tolerations and everything else of the containers stay. It names the
    pod that it replaces (``names.RECREATED_FROM``) and that pod's age (``names.FIRST_CREATED``).

    Args:
        pod: as it is stored.
        back: how it comes back.
        reason: why it leaves.
        zero: the GPU resources that a LimitRange gives to containers which name none; 0 without a GPU.
    """
    metadata, spec = _metadata(pod.metadata), _spec(pod)
    if back == "without-gpu":
        for key in dialect_names.KAI_REQUESTS:
            metadata["annotations"].pop(key, None)
        claims = frozenset(pod.gpu_claims)
        return {"metadata": metadata, "spec": spec_without_gpu(spec, zero=zero, claims=claims)}
    metadata["annotations"] |= _counts(pod, reason) | _of_maia(pod.metadata)
    return {"metadata": metadata, "spec": spec}


def refusals_after(meta: Meta, *, has_begun: bool) -> int:
    """How often kubelets have rejected a pod in a row, this time included: a pod that has run starts over."""
    return (0 if has_begun else meta.count(names.KUBELET_REJECTIONS)) + 1


def _counts(pod: WholePod, reason: Reason) -> dict[str, str]:
    """The counts of evictions and rejections, for a pod that comes back as it was."""
    evictions = pod.metadata.count(names.EVICTIONS) + (reason in {"evicted", "share"})
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


def _metadata(meta: FailedMeta) -> Json:
    kept = {
        key: value
        for key, value in sent_annotations(meta).items()
        if key in _KEPT_STATE or not (names.is_ours(key) or key in dialect_names.GPUSHARE_STATE)
    }
    kept[names.RECREATED_FROM] = meta.uid
    kept[names.FIRST_CREATED] = instant(first_created(Pod(metadata=meta)))
    # A Job takes over pods that carry its uid, and then ends them.
    former = meta.controller.uid if meta.controller else None
    labels = {
        key: value for key, value in sent_labels(meta).items() if not names.is_ours(key) and value != former
    }
    return {"name": meta.name, "namespace": meta.namespace, "labels": labels, "annotations": kept}


def instant(moment: datetime) -> str:
    """An aware UTC instant as RFC 3339, whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _spec(pod: WholePod) -> Json:
    """What the user has sent, with the values that admission replaced."""
    spec = sent_spec(pod.spec, pod.metadata)
    before = _given(pod.metadata, spec.pop("schedulerName", None), spec.pop("priorityClassName", None))
    spec["schedulerName"] = before.scheduler_name or DEFAULT_SCHEDULER
    if before.priority_class_name:
        spec["priorityClassName"] = before.priority_class_name
    return spec


def _given(meta: Meta, scheduler: str | None, class_name: str | None) -> Replaced:
    """The user's scheduler and class; a pod that our admission has never seen has them still."""
    annotations = meta.annotations or {}
    if names.ADMITTED in annotations or names.REPLACED in annotations:
        return replaced_in(annotations)
    return Replaced(
        scheduler_name=None if scheduler == names.SCHEDULER_NAME else scheduler,
        priority_class_name=None if class_name in _OUR_CLASSES else class_name,
    )
