"""Evicting a pod by name and reason: an administrator's order, which the reclaimer carries out."""

import re
from typing import Final

import msgspec

from booking import wording
from booking.principals import Principal
from booking.server.errors import ClusterError, RefusedError, UnknownPodError
from booking.server.service import audit_entries
from booking.server.service.authorization import require_administrator, required_reason
from booking.server.service.context import Evictions, PodToEvict, ServiceContext
from booking.server.service.idempotency import Key, answered, once, spending
from booking.server.store import Writing

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_POD: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
"""Names that Kubernetes allows; the API server is asked for no other."""


class Ordered(msgspec.Struct, frozen=True):
    """The stored result of an order: a retry must not hit another pod that has the same name by then."""

    pod: str
    """Namespace and name of the pod."""


def evict(
    context: ServiceContext, who: Principal, namespace: str, pod: str, *, reason: str, key: Key | None
) -> None:
    """Order the eviction of a pod.

    The audit is written first: a user who loses a pod can find out who ordered it, even if this process dies.
    """
    require_administrator(who, "evict pods")
    with spending(context, who, key):
        _evict(context, who, namespace, pod, reason=reason, key=key)


def dry_run(context: ServiceContext, who: Principal, namespace: str, pod: str, *, reason: str) -> PodToEvict:
    """The pod that would be evicted, and what it holds; nothing is ordered."""
    require_administrator(who, "evict pods")
    valid_reason, evictions = _required(context, namespace, pod, reason)
    return evictions.dry_run(namespace, pod, by=who.user, reason=valid_reason, at=context.clock.now())


def _required(context: ServiceContext, namespace: str, pod: str, reason: str) -> tuple[str, Evictions]:
    """The reason, and where orders are written, where there can be such a pod at all."""
    valid_reason = required_reason(reason)
    if not _NAMESPACE.fullmatch(namespace) or not _POD.fullmatch(pod):
        raise UnknownPodError(
            f"There is no pod {wording.quoted(pod)} in the namespace {wording.quoted(namespace)}."
        )
    if context.evictions is None:
        raise ClusterError("This booking server cannot write to pods.")
    return valid_reason, context.evictions


def _evict(
    context: ServiceContext, who: Principal, namespace: str, pod: str, *, reason: str, key: Key | None
) -> None:
    valid_reason, evictions = _required(context, namespace, pod, reason)
    subject, at = f"{namespace}/{pod}", context.clock.now()
    if context.store.read(lambda reading: answered(reading, who, key, Ordered)):
        return
    _audit(context, who, "pod.evict", subject=subject, reason=valid_reason)
    try:
        evictions.order(namespace, pod, by=who.user, reason=valid_reason, at=at)
    except (RefusedError, UnknownPodError, ClusterError) as error:
        _audit(context, who, "pod.evict-failed", subject=subject, reason=wording.clipped(str(error)))
        raise
    if key:
        once(context, who, lambda _writing: Ordered(subject), kind=Ordered, key=key)


def _audit(context: ServiceContext, who: Principal, action: str, *, subject: str, reason: str) -> None:
    def write(writing: Writing) -> None:
        audit_entries.written(writing, action, who, context.clock.now(), subject=subject, reason=reason)

    context.store.write(write)
