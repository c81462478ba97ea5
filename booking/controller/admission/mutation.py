"""The JSON of a pod after admission: with the annotations of a GPU pod, or without its GPU. Pure.

Reserved keys that the pod brought have been removed before, unless our own reclaimer wrote them.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from booking.controller.admission.model_affinity import with_model_affinity, without_model_affinity
from booking.controller.admission.owner import Ownership
from booking.controller.admission.pod_reader import Json, asks, with_annotation, with_gate
from booking.controller.admission.seen_shares import seen_by_annotation
from booking.controller.admission.sharing_dialects.containers import containers, gpus, in_several
from booking.controller.admission.sharing_dialects.translation import Sharing
from booking.controller.gpu_stripping import NOTHING, spec_with_zero, spec_without_amounts, spec_without_gpu
from cluster import dialect_names, names
from cluster.objects.bookings import Booking
from cluster.objects.cover_annotations import cover_annotations_of
from cluster.objects.pods import Container
from cluster.objects.replaced_fields import Replaced, encode_replaced, replaced_in
from cluster.objects.share_request import DEFAULT_MODE

NO_SHARING: Final = Sharing()
DEFAULT_SCHEDULER: Final = "default-scheduler"

_CLASSES: Final = frozenset({names.BOOKED_CLASS, names.OPPORTUNISTIC_CLASS})
_OF_CLASS: Final = frozenset({"priority", "preemptionPolicy"})
"""Computed from the old class: with the new one, these two would make the API server reject the pod."""
_STALE: Final = frozenset({names.USER, names.BOOKING, names.TERMINATE_AT})
"""Always rewritten, also on pods of our reclaimer."""
_MODES: Final = ("mps", "any")
"""Modes of sharing, besides the default."""
_VOID: Final = {"name": names.VISIBLE_DEVICES_VARIABLE, "value": "void"}
"""NVIDIA's runtime then leaves the container alone, whatever its image says."""


def admitted(
    pod: Json,
    whose: Ownership,
    booking: Booking | None,
    scheduler: str,
    *,
    is_queued: bool = False,
    limits: Mapping[str, dict[str, str]] | None = None,
    sharing: Sharing = NO_SHARING,
) -> Json:
    """The pod with everything that a GPU pod gets.

    Args:
        pod: without our keys, unless our reclaimer wrote them.
        whose: its owner, or why it has none; what our reclaimer wrote about the owner stays.
        booking: the booking that covers it.
        scheduler: the ``schedulerName`` of GPU pods.
        is_queued: whether it waits behind our scheduling gate.
        limits: container -> the limits in whose place it has shares.
        sharing: whether its containers with shares see by an annotation which GPUs these are of.
    """
    metadata, spec = pod["metadata"], pod["spec"]
    class_name = names.BOOKED_CLASS if booking else names.OPPORTUNISTIC_CLASS
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in _STALE}
    replaced = msgspec.structs.replace(_replaced(spec, scheduler), limits=dict(limits) if limits else None)
    if replaced != Replaced():
        annotations.setdefault(names.REPLACED, encode_replaced(replaced))
    _name_owner(annotations, whose)
    annotations |= {names.ADMITTED: "true"} | cover_annotations_of(booking) | _mode(spec, annotations)
    dropped = _OF_CLASS if spec.get("priorityClassName") != class_name else frozenset()
    changed = {"schedulerName": scheduler, "priorityClassName": class_name}
    kept: Json = _seeing_its_own({key: value for key, value in spec.items() if key not in dropped})
    if sharing.by_annotation:
        kept, seen = seen_by_annotation(kept, runtime_class=sharing.runtime_class)
        annotations |= seen
    kept = with_model_affinity(with_gate(kept, set_it=is_queued), annotations.get(names.MODEL))
    return {**pod, "metadata": {**metadata, "annotations": annotations}, "spec": {**kept, **changed}}


def guided(pod: Json, whose: Ownership, scheduler: str) -> Json:
    """A pod with claims that ask for no GPU: its owner, and the scheduler that allocates all claims.

    It gets no class, no gate and nothing else of a pod with GPUs. Its own class is recorded, too: if its
    claims turn out to be for GPUs, that is its place among its owner's pods, and what it comes back with.
    """
    metadata, spec = pod["metadata"], pod["spec"]
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in _STALE}
    replaced = _replaced(spec, scheduler)
    if replaced != Replaced():
        annotations.setdefault(names.REPLACED, encode_replaced(replaced))
    _name_owner(annotations, whose)
    annotations[names.ADMITTED] = "true"
    changed = {"metadata": {**metadata, "annotations": annotations}}
    return {**pod, **changed, "spec": {**spec, "schedulerName": scheduler}}


def _name_owner(annotations: dict[str, str], whose: Ownership) -> None:
    if whose.user is None:
        annotations.setdefault(names.NO_USER, f"{whose.why}.")
    else:
        annotations[names.USER] = whose.user


def grouped(pod: Json, groups: Collection[str]) -> Json:
    """The pod with those of its creator's groups by which shares are divided, if there are any."""
    if not groups:
        return pod
    return with_annotation(pod, names.GROUPS, msgspec.json.encode(sorted(groups)).decode())


def stripped(
    pod: Json,
    message: str,
    scheduler: str,
    *,
    zero: frozenset[str] = NOTHING,
    claims: frozenset[str] = NOTHING,
) -> Json:
    """The pod without GPUs and cover annotations, with a message that explains why.

    It keeps its scheduler and its PriorityClass unless they are ours: those are for pods with GPUs only.
    ``zero``: the GPU resources that a LimitRange would give it after us; ``claims``: what it calls its claims
    for GPUs (``PodClaims.names``).
    """
    given_back = _unasked(_given_back(pod, scheduler))
    spec = spec_without_gpu(dict(given_back["spec"]), zero=zero, claims=claims)
    return with_annotation({**given_back, "spec": spec}, names.STRIPPED, message)


def given_up(pod: Json, message: str, scheduler: str, *, zero: frozenset[str] = NOTHING) -> Json:
    """The pod, from which another webhook has removed the GPUs since ``admitted``, with a message.

    What ``admitted`` has written is taken back: annotations of cover, our scheduler, our PriorityClass, which
    gives no priority without a GPU, and our gate. Containers stay as the other webhook has made them, but for
    0 of what a LimitRange would fill in for what was removed (``zero``), and amounts of GPUs, which go too.
    """
    given_back = _unasked(_given_back(pod, scheduler))
    for key in (names.ADMITTED, names.BOOKING, names.TERMINATE_AT, names.SHARING_MODE):
        given_back = with_annotation(given_back, key, None)
    spec = spec_with_zero(spec_without_amounts(given_back["spec"]), zero)
    return with_annotation({**given_back, "spec": spec}, names.STRIPPED, message)


def _given_back(pod: Json, scheduler: str) -> Json:
    """The pod with scheduler and PriorityClass as its user gave them; without our gate and model terms."""
    before = replaced_in(pod["metadata"].get("annotations") or {})
    spec = dict(without_model_affinity(with_gate(pod["spec"], set_it=False)))
    if spec.get("priorityClassName") in _CLASSES:
        spec = {key: value for key, value in spec.items() if key not in {"priorityClassName", *_OF_CLASS}}
        if before.priority_class_name:
            spec["priorityClassName"] = before.priority_class_name
    if spec.get("schedulerName") in {scheduler, names.SCHEDULER_NAME}:
        spec["schedulerName"] = before.scheduler_name or DEFAULT_SCHEDULER
    return with_annotation({**pod, "spec": spec}, names.REPLACED, None)


def _unasked(pod: Json) -> Json:
    """The pod without annotations that request a share, as its limits do no more."""
    for key in dialect_names.KAI_REQUESTS:
        if key in (pod["metadata"].get("annotations") or {}):
            pod = with_annotation(pod, key, None)
    return pod


def _mode(spec: Json, annotations: Mapping[str, str]) -> dict[str, str]:
    """The mode in which the pod's GPUs are shared, of which a later change of its own annotation is none."""
    if not any(names.SHARED_RESOURCE in gpus(one) for one in containers(spec)):
        return {}
    wanted = (annotations.get(names.SHARING) or "").strip()
    if in_several(spec):
        wanted = DEFAULT_MODE  # the only one in which a container has shares of several GPUs
    return {names.SHARING_MODE: wanted if wanted in _MODES else DEFAULT_MODE}


def _replaced(spec: Json, scheduler: str) -> Replaced:
    """The user's scheduler and class that ours replace; ours are not recorded, as they are for GPU pods.

    The scheduler of mode ``dedicated`` counts as ours in the other mode, too: manifests may name it, but then
    no process serves it.
    """
    given, class_name = spec.get("schedulerName") or None, spec.get("priorityClassName") or None
    return Replaced(
        scheduler_name=None if given in {scheduler, names.SCHEDULER_NAME} else given,
        priority_class_name=None if class_name in _CLASSES else class_name,
        priority=None if class_name in _CLASSES else spec.get("priority") or None,
    )


def _seeing_its_own(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec with containers that do not choose GPUs by NVIDIA's environment variable themselves."""
    groups = {
        group: [_seeing(container) for container in spec[group]]
        for group in ("initContainers", "containers")
        if spec.get(group)
    }
    return {**spec, **groups}


def _seeing(container: dict[str, Any]) -> dict[str, Any]:
    """The container without a value of its own that would override the node agent's.

    A container without a GPU gets the value void if the variable is in its environment or may come from an
    object that ``envFrom`` names; the container's own environment overrides such objects.
    """
    env: list[dict[str, Any]] = container.get("env") or []
    others = [one for one in env if one.get("name") != _VOID["name"]]
    if asks(msgspec.convert(container, Container)):
        return container if others == env else {**container, "env": others}
    if others == env and not container.get("envFrom"):
        return container
    return {**container, "env": [*others, _VOID]}
