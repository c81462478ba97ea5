"""The next step for a pod that is evicted and comes back: the state table (law L4).

Used by ``pod_evictor``. All state is in three objects, so a process that starts at any moment continues where
another stopped:

- the **victim**, which our finalizer keeps until it is on record that its pod must come back;
- the **template**, a PodTemplate: *stored* before the victim is touched, *due* once the victim has ended;
- the **returning** pod, which our finalizer keeps until the template is gone, so that a user who deletes it
  at once is not overruled.

The order of writes: store, add finalizer, take | mark due, release victim | create, forget, release.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from booking.controller.reclaimer.evictor import Back, Reason
from cluster import event_reasons, names
from cluster.kube.resources import PodTemplate
from cluster.objects.kubelet_rejection import is_rejected_by_kubelet, start_error
from cluster.objects.meta import Meta
from cluster.objects.pods import Pod, has_condition, is_terminal, is_terminating

Step = Literal[
    "store",
    "add finalizer",
    "take",
    "clear condition",
    "remove finalizer",
    "restore",
    "mark due",
    "release victim",
    "create",
    "forget",
    "release",
    "wait",
    "done",
]

MEANINGS: Mapping[Step, str] = {
    "store": "Ask whether the pod would be accepted again (dry run), and store it as a template.",
    "add finalizer": "Put our finalizer and label on the victim.",
    "take": "Evict the victim, or end it; one that failed before it ran has ended already, and is deleted.",
    "clear condition": "Take back the condition `DisruptionTarget` of a victim that need not go.",
    "remove finalizer": "Take finalizer and label off a victim that need not go.",
    "restore": "Store the template again: the victim leaves by our hand, and it is missing.",
    "mark due": "Write on the template that its pod must come back.",
    "release victim": "Take our finalizer off the victim.",
    "create": "Create the pod that comes back under the old name.",
    "forget": "Delete the template.",
    "release": "Take finalizer and label off the pod that came back.",
    "wait": "Nothing until the victim has ended, or is gone.",
    "done": "Nothing is left to do.",
}


AS_IT_WAS: Final[Back] = "as-it-was"
COMEBACK_BY_ANNOTATION: Final[Mapping[str, Back]] = {
    "recreate-without-gpu": "without-gpu",
    "requeue": "as-it-was",
    "delete": "never",
}
"""The values of ``names.ON_EVICT``."""
CONDITIONS: Final[Mapping[Reason, str]] = {
    "evicted": event_reasons.EVICTED_FOR_BOOKING,
    "share": event_reasons.EVICTED_FOR_SHARE,
    "overuse": event_reasons.EVICTED_FOR_OVERUSE,
    "ended": event_reasons.BOOKING_ENDED,
    "refused": event_reasons.REJECTED_BY_KUBELET,
}
"""``reason`` of the condition ``DisruptionTarget`` where we set it ourselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comeback:
    """The present objects of one comeback: its template, the victim and the pod in its place."""

    template: PodTemplate | None = None
    victim: Pod | None = None
    """The pod that leaves; None when it is gone."""
    returning: Pod | None = None
    """The pod that was created in the victim's place."""
    is_name_taken: bool = False
    """Another user's or controller's pod has the name."""
    wanted: bool = False
    """Whether the victim is still meant to leave."""


def next_step(comeback: Comeback) -> Step:
    """The one step to take now."""
    victim = comeback.victim
    if victim is None:
        return _after(comeback)
    if not is_terminating(victim):
        return _before(victim, comeback)
    return _meanwhile(victim, comeback.template)


def _before(victim: Pod, comeback: Comeback) -> Step:
    """The step while the victim is not terminating."""
    template = comeback.template
    if comeback.wanted and (not is_terminal(victim) or _never_ran(victim)):
        if template is None:
            return "store"
        return "take" if has_our_finalizer(victim) else "add finalizer"
    # First, since a deletion by its user could not be distinguished from ours.
    if is_marked_for_disruption(victim):
        return "clear condition"
    # In this order: a concurrent eviction fails by the resourceVersion.
    if has_our_finalizer(victim):
        return "remove finalizer"
    return "forget" if template else "done"


def _never_ran(victim: Pod) -> bool:
    return is_rejected_by_kubelet(victim) or start_error(victim) is not None


def _meanwhile(victim: Pod, template: PodTemplate | None) -> Step:
    """The step while the victim is terminating."""
    if not has_condition(victim, names.DISRUPTION_TARGET):
        # Its user has deleted it, and wins.
        if template:
            return "forget"
        return "release victim" if has_our_finalizer(victim) else "done"
    if not has_our_finalizer(victim):
        return "wait" if template is None or is_due(template) else "mark due"
    if template is None:
        return "restore"
    if is_due(template):
        return "release victim"
    return "mark due" if has_ended(victim) else "wait"


def _after(comeback: Comeback) -> Step:
    """The step once the victim is gone."""
    template, returning = comeback.template, comeback.returning
    if template is None:
        return "release" if returning and has_our_finalizer(returning) else "done"
    if returning or comeback.is_name_taken or not is_due(template):
        return "forget"
    return "create"


def has_our_finalizer(pod: Pod) -> bool:
    """Whether our finalizer is on the pod."""
    return names.COMEBACK in (pod.metadata.finalizers or ())


def is_marked_for_disruption(pod: Pod) -> bool:
    """Whether our ``DisruptionTarget`` is on it: written right before a deletion, which may not follow."""
    conditions = pod.status.conditions or ()
    ours = (c for c in conditions if c.type == names.DISRUPTION_TARGET and c.reason in CONDITIONS.values())
    return any(c.status == "True" for c in ours)


def is_due(template: PodTemplate) -> bool:
    """Whether its pod must come back."""
    return template.metadata.annotation(names.COMEBACK_DUE) is not None


def has_ended(victim: Pod) -> bool:
    """Whether no container of a terminating pod runs any more, or ever did."""
    if is_terminal(victim) or not victim.spec.node_name:
        return True
    if victim.metadata.deletion_grace_period_seconds == 0:
        return True  # the kubelet is done with it, or it was deleted by force
    if any(container.is_sidecar for container in victim.spec.init_containers or ()):
        return False  # only the phase shows when sidecars have ended, too
    statuses = victim.status.container_statuses or ()
    terminated = [status for status in statuses if status.state and status.state.terminated]
    return len(terminated) == len(victim.spec.containers or ()) > 0


def is_owned(pod: Pod) -> bool:
    """Whether the pod has a controller, which usually replaces it."""
    return pod.metadata.controller is not None


def on_eviction(pod: Pod, *, is_awaited: bool = False, for_share: bool = False) -> Back:
    """How a pod comes back when it is evicted: as it requests; an unreadable request counts as none.

    One with a controller comes back, if at all, as a controller would create it: with its request for GPUs.

    Args:
        pod: the pod to evict.
        is_awaited: whether a booking would cover it on another node, where it then certainly gets its GPU.
        for_share: whether it leaves for a pod without a booking: then it waits for its next turn, unless it
            is a notebook, which somebody sits before.
    """
    requested = COMEBACK_BY_ANNOTATION.get((pod.metadata.annotation(names.ON_EVICT) or "").strip())
    waits = is_awaited or is_owned(pod) or (for_share and not is_notebook(pod))
    return requested or ("as-it-was" if waits else "without-gpu")


def is_notebook(pod: Pod) -> bool:
    """Whether a JupyterHub has created it for a user."""
    return names.HUB_USER in (pod.metadata.labels or {})


def how(meta: Meta) -> Back:
    """How a pod comes back, from the metadata of its template or of the prepared victim."""
    return "as-it-was" if meta.annotation(names.COMEBACK_HOW) == AS_IT_WAS else "without-gpu"


def reason_in(victim: Pod) -> Reason:
    """Why we evict a pod, from its condition; the Eviction API's own condition counts, too."""
    found = next((c for c in victim.status.conditions or () if c.type == names.DISRUPTION_TARGET), None)
    reasons = {condition: reason for reason, condition in CONDITIONS.items()}
    return reasons.get(found.reason or "", "evicted") if found else "evicted"


def is_comeback(template: PodTemplate) -> bool:
    """Whether a PodTemplate has the form of ours: anyone could put our label on it."""
    name = (template.template.get("metadata") or {}).get("name")
    return template.metadata.name.startswith(names.COMEBACK_PREFIX) and bool(name)


def victim_of(template: PodTemplate) -> str:
    """Uid of the pod that the template was made from."""
    return template.metadata.name.removeprefix(names.COMEBACK_PREFIX)


def origin_of(pod: Pod) -> str | None:
    """Uid of the pod that this one replaces, None for a pod that is not a comeback."""
    return pod.metadata.annotation(names.RECREATED_FROM)
