"""The explanation of a pod, for whoever may hear it. Pure."""

import msgspec

from booking.evicting.grants import granted_until
from booking.live.eyes import Eyes
from booking.live.sight import Sight
from cluster.decide.explain import explain_pod
from cluster.objects.pods import Pod


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pod is as it is (law L8)."""

    namespace: str
    name: str
    state: str
    """In a word or some: ``running, booked``."""
    because: tuple[str, ...]
    would_change: tuple[str, ...]


def why_of(pod: Pod, sight: Sight, eyes: Eyes) -> Why:
    """Explain a pod to somebody, who learns of other people's pods only what they may."""
    granted = granted_until(pod, sight.terms)
    found = explain_pod(pod, sight.scene, granted=granted, may_name=eyes.may_name)
    return Why(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        state=found.state,
        because=found.because,
        would_change=found.would_change,
    )
