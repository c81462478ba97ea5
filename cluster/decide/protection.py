"""Why a pod may not be evicted for another one (laws L2 and L6): now, or however long one waits.

The one predicate of the reclaimer, which evicts, of the extender, which judges kube-scheduler's victims, and
of every part that guarantees devices or keeps bookings placeable.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from cluster import names
from cluster.decide.ledger.holdings import Holding
from cluster.objects.cover_annotations import terminate_at
from cluster.objects.namespaces import Namespace
from cluster.objects.pods import Pod, is_live

OUT_OF_REACH: Final = frozenset({"kube-system", "kube-public", "kube-node-lease"})
"""Kubernetes' own namespaces: their pods are never evicted; nor are those of the product's own."""
HANGS_AFTER: Final = timedelta(minutes=5)
"""Beyond a terminating pod's own time to stop (its ``deletionTimestamp``): a kubelet needs seconds."""
NEVER: Final = frozenset({"DaemonSet", "Node"})
"""Owners whose pods would come back to the same node at once, or are not the API server's to take."""


def granted_until(pod: Pod, *, maia: bool) -> datetime | None:
    """Until when MAIA's webhook has granted the pod its GPUs; None where it has not, or that means nothing.

    MAIA writes an instant in 1900 where it grants nothing. What a booking of ours covers is no grant of
    MAIA's.

    Args:
        pod: any pod.
        maia: whether MAIA's word counts here.
    """
    if not maia or pod.metadata.annotation(names.BOOKING):
        return None
    return terminate_at(pod)


def present_protection(pod: Pod, *, is_booked: bool, granted: datetime | None, now: datetime) -> str | None:
    """Why the pod may not be evicted at this instant, None where only what lasts may protect it.

    Args:
        pod: a bound pod.
        is_booked: whether a booking covers it.
        granted: until when MAIA has granted it its GPUs.
        now: the instant.
    """
    if not is_live(pod):
        return "it is leaving already"
    if is_booked:
        return "it is booked itself"
    if granted is not None and granted > now:
        return "MAIA has granted it its GPUs"
    return None


def lasting_protection(
    pod: Pod, holding: Holding | None, *, namespaces: Mapping[str, Namespace], home: str
) -> str | None:
    """Why the pod may not be evicted however long one waits, None when it may.

    Args:
        pod: a bound pod that lives and is not booked.
        holding: what it holds.
        namespaces: what administrators have written on them.
        home: the product's own namespace.
    """
    found = never_evicted_reason(pod, namespaces=namespaces, home=home)
    if found:
        return found
    if holding is None or holding.unknown or not holding.devices:
        return "it is not known which devices it holds"
    return None


def never_evicted_reason(pod: Pod, *, namespaces: Mapping[str, Namespace], home: str) -> str | None:
    """Why the pod is never taken away, not even by an administrator's order; None where it may be taken."""
    return _of_its_place(pod, namespaces, home) or _of_its_owner(pod)


def stuck_from(pod: Pod) -> datetime | None:
    """From when on a terminating pod counts as hanging; None for one that is not terminating."""
    until = pod.metadata.deletion_timestamp
    return None if until is None else until + HANGS_AFTER


def is_stuck(pod: Pod, now: datetime) -> bool:
    """Whether it is unknown when the pod will have gone: its devices are not waited for."""
    since = stuck_from(pod)
    return since is not None and since <= now


def _of_its_place(pod: Pod, namespaces: Mapping[str, Namespace], home: str) -> str | None:
    namespace = pod.metadata.namespace
    if namespace in OUT_OF_REACH or namespace == home:
        return f"pods of the namespace {namespace} are never evicted"
    known = namespaces.get(namespace)
    if known is not None and known.is_protected:
        return f"an administrator has said that no pod of the namespace {namespace} is evicted"
    return None


def _of_its_owner(pod: Pod) -> str | None:
    """It would come back to the same node at once, or is not the API server's to take."""
    if names.STATIC_POD in (pod.metadata.annotations or ()):
        return "pods of a Node are never evicted"
    owner = next((o.kind for o in pod.metadata.owner_references or () if o.kind in NEVER), None)
    return f"pods of a {owner} are never evicted" if owner else None
