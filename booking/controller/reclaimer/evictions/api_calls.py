"""The API calls that make up an eviction: one method per call, each by uid.

A write that could undo another client's write carries the resourceVersion that it was decided on.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from booking.controller.reclaimer.evictions.comeback import AS_IT_WAS, CONDITIONS, victim_of
from booking.controller.reclaimer.evictor import Back, Reason
from cluster import names
from cluster.decide.budgets import budgets_of
from cluster.kube.errors import Conflict, NotFound
from cluster.kube.interface import Kube, Selection
from cluster.kube.resources import (
    DISRUPTION_BUDGETS,
    POD_TEMPLATES,
    PODS,
    WHOLE_PODS,
    PodTemplate,
    WholePod,
)
from cluster.objects.claims import PodClaims
from cluster.objects.disruption_budgets import DisruptionBudget
from cluster.objects.meta import Meta
from cluster.objects.pods import Pod, PodSpec, PodStatus
from cluster.process.clock import Clock

Json = dict[str, Any]

LONGEST_STEM: Final = 40
"""Characters of the pod's name in the name of its dry run."""
SHORTEST_GRACE: Final = 1
"""Seconds: with 0 the API server would drop the pod at once, while its containers still run."""
DEFAULT_GRACE: Final = 30
"""Seconds: the default of Kubernetes for a pod that sets no grace period."""


class Calls:
    """The calls to the API server. Every method raises ``ApiError``."""

    def __init__(
        self, kube: Kube, clock: Clock, claims: Callable[[Pod], PodClaims | None] = lambda _: None
    ) -> None:
        """Args: claims: what a pod asks for by claims."""
        self._kube = kube
        self._clock = clock
        self._claims = claims

    def whole(self, meta: Meta) -> WholePod | None:
        """The complete pod, None when it is gone."""
        try:
            found = self._kube.get(WHOLE_PODS, meta.name, namespace=meta.namespace)
        except NotFound:
            return None
        if found.metadata.uid != meta.uid:
            return None
        claims = self._claims(read(found))
        return msgspec.structs.replace(found, gpu_claims=claims.names) if claims else found

    def named(self, name: str, namespace: str) -> Pod | None:
        """The pod that has this name now, whatever its uid; None when there is none."""
        try:
            return self._kube.get(PODS, name, namespace=namespace)
        except NotFound:
            return None

    def dry_run(self, body: Json) -> Pod:
        """Create the pod in a dry run, under another name since its own is taken; how it would be stored."""
        metadata = {key: value for key, value in body["metadata"].items() if key != "name"}
        stem = body["metadata"]["name"][:LONGEST_STEM].rstrip(".")  # no label begins with a hyphen
        metadata["generateName"] = f"{stem}-"
        namespace = metadata["namespace"]
        return self._kube.create(PODS, {**body, "metadata": metadata}, namespace=namespace, dry_run=True)

    def store(self, meta: Meta, body: Json, *, reason: Reason, message: str, back: Back) -> PodTemplate:
        """Store the pod that is to come back as a template; an existing template is left as it is."""
        name = f"{names.COMEBACK_PREFIX}{meta.uid}"
        annotations = {names.COMEBACK_REASON: reason, names.COMEBACK_MESSAGE: message}
        kept = {key: body["metadata"][key] for key in ("name", "labels", "annotations")}
        kept["annotations"] = {**kept["annotations"], **annotations}
        template = {
            "metadata": {
                "name": name,
                "labels": {names.COMEBACK: "true"},
                "annotations": annotations | _how(back),
            },
            "template": {"metadata": kept, "spec": body["spec"]},
        }
        try:
            return self._kube.create(POD_TEMPLATES, template, namespace=meta.namespace)
        except Conflict:
            stored = self.stored(meta.uid, meta.namespace)
            if stored is None:
                raise  # whoever refused it, it was not for its name
            return stored

    def stored(self, uid: str, namespace: str) -> PodTemplate | None:
        """The template of the pod with this uid as it is now, None when there is none."""
        try:
            return self._kube.get(POD_TEMPLATES, f"{names.COMEBACK_PREFIX}{uid}", namespace=namespace)
        except NotFound:
            return None

    def add_finalizer(self, pod: Pod, *, back: Back, notice: str | None) -> Pod:
        """Add the finalizer and label, how the pod comes back, and its notice."""
        finalizers = [*(pod.metadata.finalizers or ()), names.COMEBACK]
        change: Json = {"finalizers": finalizers, "labels": {names.COMEBACK: "true"}}
        annotations = _how(back) | ({names.NOTICE: notice} if notice else {})
        if annotations:
            change["annotations"] = annotations
        return self._change(pod, change, versioned=True)

    def notify(self, pod: Pod, notice: str) -> Pod:
        """Write the notice on a pod without our finalizer: we do not bring it back."""
        return self._change(pod, {"annotations": {names.NOTICE: notice}}, versioned=False)

    def release_victim(self, pod: Pod) -> Pod:
        """Remove the finalizer. The label stays: by it our watch sees the pod's deletion."""
        return self._change(pod, {"finalizers": _others(pod)}, versioned=bool(_others(pod)))

    def remove_finalizer(self, pod: Pod) -> Pod:
        """Remove finalizer and label; a concurrent eviction fails by the resourceVersion."""
        return self._change(pod, _bare(pod), versioned=True)

    def release(self, pod: Pod) -> Pod:
        """Remove finalizer and label from a pod that is being scheduled and started meanwhile."""
        return self._change(pod, _bare(pod), versioned=bool(_others(pod)))

    def _change(self, pod: Pod, metadata: Json, *, versioned: bool) -> Pod:
        """Patch the pod; finalizers of others in the list make the write depend on the resourceVersion."""
        meta = pod.metadata
        precondition = {"uid": meta.uid}
        if versioned:
            precondition["resourceVersion"] = meta.resource_version
        return self._kube.patch(
            PODS, meta.name, {"metadata": {**precondition, **metadata}}, namespace=meta.namespace
        )

    def evict(self, pod: Pod, grace_seconds: int, *, versioned: bool, dry_run: bool = False) -> None:
        """Evict the pod by the Eviction API, which respects budgets and sets ``DisruptionTarget``.

        With the resourceVersion as a precondition, a pod that its user has just deleted is not marked. A dry
        run asks budgets and webhooks, and changes nothing.
        """
        meta = pod.metadata
        preconditions = {"uid": meta.uid}
        if versioned:
            preconditions["resourceVersion"] = meta.resource_version
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "deleteOptions": {
                "preconditions": preconditions,
                "gracePeriodSeconds": grace(pod, grace_seconds),
            },
        }
        self._kube.create_subresource(
            PODS, "eviction", body, name=meta.name, namespace=meta.namespace, dry_run=dry_run
        )

    def budgets(self, pod: Pod) -> tuple[DisruptionBudget, ...]:
        """The PodDisruptionBudgets that select the pod."""
        page = self._kube.list(DISRUPTION_BUDGETS, Selection(namespace=pod.metadata.namespace))
        return budgets_of(pod, page.items)

    def mark_disruption(
        self, pod: Pod, conditions: list[Json], *, status: bool, reason: Reason, message: str
    ) -> Pod:
        """Set the condition ``DisruptionTarget`` among all conditions of the pod, as they were read."""
        at = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": names.DISRUPTION_TARGET,
            "status": "True" if status else "False",
            "reason": CONDITIONS[reason],
            "message": message,
            "lastTransitionTime": at,
        }
        others = [one for one in conditions if one.get("type") != names.DISRUPTION_TARGET]
        meta = pod.metadata
        precondition = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        patch = {"metadata": precondition, "status": {"conditions": [*others, condition]}}
        return self._kube.patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")

    def end(self, pod: Pod, grace_seconds: int) -> None:
        """Delete the pod if it still has this resourceVersion."""
        meta = pod.metadata
        self._kube.delete(
            PODS,
            meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            resource_version=meta.resource_version,
            grace_seconds=grace(pod, grace_seconds),
        )

    def mark_due(self, template: PodTemplate) -> PodTemplate:
        """Write on the template that its pod must come back."""
        due = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        meta = template.metadata
        patch = {"metadata": {"uid": meta.uid, "annotations": {names.COMEBACK_DUE: due}}}
        return self._kube.patch(POD_TEMPLATES, meta.name, patch, namespace=meta.namespace)

    def create(self, template: PodTemplate) -> Pod:
        """Create the pod that comes back, with our finalizer and label.

        Raises:
            Conflict: a pod has that name.
        """
        meta = template.template.get("metadata") or {}
        labels = {**(meta.get("labels") or {}), names.COMEBACK: "true"}
        metadata = {**meta, "labels": labels, "finalizers": [names.COMEBACK]}
        body = {"metadata": metadata, "spec": template.template.get("spec") or {}}
        return self._kube.create(PODS, body, namespace=template.metadata.namespace)

    def forget(self, template: PodTemplate) -> None:
        """Delete the template, if it is still there.

        Raises:
            NotFound: an answer that is not true: a webhook may refuse with any code.
        """
        meta = template.metadata
        try:
            self._kube.delete(POD_TEMPLATES, meta.name, namespace=meta.namespace, uid=meta.uid)
        except NotFound:
            now = self.stored(victim_of(template), meta.namespace)
            if now is not None and now.metadata.uid == meta.uid:
                raise


def grace(pod: Pod, longest: int) -> int:
    """Seconds between SIGTERM and SIGKILL."""
    own = pod.spec.termination_grace_period_seconds
    return max(SHORTEST_GRACE, min(DEFAULT_GRACE if own is None else own, longest))


def read(whole: WholePod) -> Pod:
    """The whole pod as the struct that our reflectors decode."""
    return Pod(
        metadata=whole.metadata,
        spec=msgspec.convert(whole.spec, PodSpec),
        status=msgspec.convert(whole.status, PodStatus),
    )


def _others(pod: Pod) -> list[str]:
    return [one for one in pod.metadata.finalizers or () if one != names.COMEBACK]


def _how(back: Back) -> dict[str, str]:
    return {names.COMEBACK_HOW: AS_IT_WAS} if back == AS_IT_WAS else {}


def _bare(pod: Pod) -> Json:
    """A merge patch of the metadata that removes every trace of a comeback."""
    change: Json = {"finalizers": _others(pod), "labels": {names.COMEBACK: None}}
    if pod.metadata.annotation(names.COMEBACK_HOW) is not None:
        change["annotations"] = {names.COMEBACK_HOW: None}
    return change
