"""The explanation of a pod, for users who may see it. Pure."""

from dataclasses import replace

import msgspec

from booking.eviction.maia_grants import granted_until
from booking.server.cluster_status.given import given_by_agent
from booking.server.cluster_status.snapshot import StatusSnapshot
from booking.server.cluster_status.usage import Used
from booking.server.cluster_status.viewer import Viewer
from cluster.decide.explain import explain_pod
from cluster.objects.pods import Pod


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pod is as it is (law L8)."""

    namespace: str
    name: str
    state: str
    """The state in a few words: ``running, booked``."""
    because: tuple[str, ...]
    would_change: tuple[str, ...]


def why_of(
    pod: Pod, snapshot: StatusSnapshot, viewer: Viewer, *, missing_claims: tuple[str, ...] = ()
) -> Why:
    """Explain a pod to a user, who learns of other users' pods only what they may.

    ``missing_claims``: the ResourceClaims that it names, and that do not exist.
    """
    granted = granted_until(pod, snapshot.terms)
    given = {pod.metadata.uid: given_by_agent(pod, snapshot, viewer)}
    used = Used(snapshot.uses.get(pod.spec.node_name or ""), snapshot.now, viewer)
    seen = replace(
        snapshot.explanation,
        given=given,
        missing_claims=missing_claims,
        over_users=used.over_users,
        evicts_over_users=snapshot.terms.evicts_over_users,
    )
    found = explain_pod(pod, seen, granted=granted, may_name=viewer.may_name)
    return Why(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        state=found.state,
        because=found.because,
        would_change=found.would_change,
    )
