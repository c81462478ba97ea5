"""Evicting a pod by name and reason: an administrator's order, which the reclaimer carries out."""

import re
from typing import Final

import msgspec

from booking import wording
from booking.errors import ClusterError, RefusedError, UnknownPodError
from booking.principals import Principal
from booking.service import auditing
from booking.service.authority import demand_administrator, demanded_reason
from booking.service.ground import Ground
from booking.service.once import Key, answered, once, spending
from booking.store import Writing

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_POD: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
"""Names that Kubernetes allows; nobody else's is asked for."""


class Ordered(msgspec.Struct, frozen=True):
    """What is kept of an order: sent again, it is not for another pod that has got the name since."""

    pod: str
    """Namespace and name."""


def evict(ground: Ground, who: Principal, namespace: str, pod: str, *, reason: str, key: Key | None) -> None:
    """Order a pod to go.

    It is written down before: whoever loses a pod finds out by whom, whatever becomes of this process.
    """
    demand_administrator(who, "evict pods")
    with spending(ground, who, key):
        _evict(ground, who, namespace, pod, reason=reason, key=key)


def _evict(ground: Ground, who: Principal, namespace: str, pod: str, *, reason: str, key: Key | None) -> None:
    said = demanded_reason(reason)
    if not _NAMESPACE.fullmatch(namespace) or not _POD.fullmatch(pod):
        raise UnknownPodError(
            f"There is no pod {wording.quoted(pod)} in the namespace {wording.quoted(namespace)}."
        )
    if ground.evictions is None:
        raise ClusterError("This booking server cannot write to pods.")
    subject, at = f"{namespace}/{pod}", ground.clock.now()
    if ground.store.read(lambda reading: answered(reading, who, key, Ordered)):
        return
    _audit(ground, who, "pod.evict", subject=subject, reason=said)
    try:
        ground.evictions.order(namespace, pod, by=who.user, reason=said, at=at)
    except (RefusedError, UnknownPodError, ClusterError) as error:
        _audit(ground, who, "pod.evict-failed", subject=subject, reason=wording.clipped(str(error)))
        raise
    if key:
        once(ground, who, lambda _writing: Ordered(subject), kind=Ordered, key=key)


def _audit(ground: Ground, who: Principal, action: str, *, subject: str, reason: str) -> None:
    def write(writing: Writing) -> None:
        auditing.written(writing, action, who, ground.clock.now(), subject=subject, reason=reason)

    ground.store.write(write)
