"""Why a pod may not be evicted for another one (laws L2 and L6): now, or ever.

The reclaimer, which evicts, the extender, which checks kube-scheduler's victims, and every part that
guarantees devices or keeps bookings placeable use these predicates.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from cluster import names
from cluster.decide.ledger.holdings import PodHoldings
from cluster.objects.cover_annotations import terminate_at
from cluster.objects.namespaces import Namespace
from cluster.objects.pods import Pod, is_live

OUT_OF_REACH: Final = frozenset({"kube-system", "kube-public", names.KUBELET_LEASES})
"""Kubernetes' own namespaces: their pods are never evicted. Nor are those of the product's own namespace."""
HANGS_AFTER: Final = timedelta(minutes=5)
"""Time after the end of a terminating pod's grace (its ``deletionTimestamp``); a kubelet needs seconds."""
NEVER: Final = frozenset({"DaemonSet", "Node"})
"""Kinds of owners whose pods would come back to the same node at once, or do not end if deleted."""


def granted_until(pod: Pod, *, maia: bool) -> datetime | None:
    """Until when MAIA's webhook has granted the pod its GPUs; None if it has not, or grants do not count.

    MAIA writes an instant in 1900 if it grants nothing. On a pod with a booking of ours, the instant is not
    MAIA's.

    Args:
        pod: any pod.
        maia: whether MAIA's grants count here.
    """
    if not maia or pod.metadata.annotation(names.BOOKING):
        return None
    return terminate_at(pod)


def present_protection(pod: Pod, *, is_booked: bool, granted: datetime | None, now: datetime) -> str | None:
    """Why the pod may not be evicted at this instant; None if at most ``lasting_protection`` forbids it.

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
    pod: Pod, holding: PodHoldings | None, *, namespaces: Mapping[str, Namespace], home: str
) -> str | None:
    """Why the pod may not be evicted at any time; None if it may.

    Args:
        pod: a bound pod that lives and is not booked.
        holding: what it holds.
        namespaces: name -> Namespace, for administrators' annotations.
        home: the product's own namespace.
    """
    found = never_evicted_reason(pod, namespaces=namespaces, home=home)
    if found:
        return found
    if holding is None or holding.unknown or not holding.devices:
        return "it is not known which devices it holds"
    return None


def never_evicted_reason(pod: Pod, *, namespaces: Mapping[str, Namespace], home: str) -> str | None:
    """Why the pod is never evicted, not even by an administrator's order; None if it may be."""
    return _of_its_place(pod, namespaces, home) or _of_its_owner(pod)


def stuck_from(pod: Pod) -> datetime | None:
    """The instant from which a terminating pod counts as hanging; None for one that is not terminating."""
    until = pod.metadata.deletion_timestamp
    return None if until is None else until + HANGS_AFTER


def is_stuck(pod: Pod, now: datetime) -> bool:
    """Whether the pod hangs while terminating: nothing waits for its devices any more."""
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
    """Why its owner protects it: it would come back to the same node at once, or not end if deleted."""
    if names.STATIC_POD in (pod.metadata.annotations or ()):
        return "pods of a Node are never evicted"
    owner = next((o.kind for o in pod.metadata.owner_references or () if o.kind in NEVER), None)
    return f"pods of a {owner} are never evicted" if owner else None
