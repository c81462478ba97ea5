"""Pods in the cache: all are told to the ledger, which knows the newest state; those with GPUs are kept."""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Final

import structlog
from msgspec.structs import force_setattr

from cluster import names
from cluster.cache.store import Guard, Store
from cluster.decide.ledger import Ledger
from cluster.kube.resources import PODS
from cluster.objects.hold import HoldError, hold_of
from cluster.objects.pods import Pod, asks_for_gpus, has_condition, is_terminal
from cluster.objects.quantity import QuantityError
from cluster.objects.scheduling_gates import is_queued
from cluster.process.stop_events import nothing

log = structlog.get_logger(__name__)

RECLAIMER_ANNOTATIONS: Final = frozenset(
    {
        *names.WAITING_STATE,
        names.NOTICE,
        names.BOOKING,
        names.TERMINATE_AT,
        names.WARNED,
        names.END_REQUESTED,
        names.EVICT,
        names.RESERVES,
    }
)
"""The reclaimer's annotations, which are written and removed as things change."""

NEIGHBOURS: Final = 16
"""Pods of a node that are compared with a new one, at most."""


class Pods(Store[Pod]):
    """Uid -> every living pod that requests GPUs."""

    def __init__(
        self,
        guard: Guard,
        ledger: Ledger,
        *,
        at_a_time: int | None = None,
        give_way: Callable[[], None] = nothing,
    ) -> None:
        super().__init__(guard, PODS, keep=self._kept, at_a_time=at_a_time, give_way=give_way)
        self._ledger = ledger
        self.joined: Callable[[Pod], Pod] | None = None
        """Puts on a pod what its claims say, where claims are followed."""
        self.annotated: Final = self.index(_annotated)
        """Those with something that the reclaimer keeps up to date.

        That is one of ``RECLAIMER_ANNOTATIONS``, or a pending removal.
        """
        self.queued: Final = self.index(_queued)
        """Those behind our gate: there may be far more of them than of the former."""
        self.stripped: Final = self.index(_stripped)
        """Every living pod that admission has created without the GPU that it asked for."""
        self.observe(_log_bad_hold)

    def _kept(self, pod: Pod) -> Pod | None:
        """As ``gpu_pod``; it shares an equal ``spec`` with its last state, or with a pod of its node."""
        kept = gpu_pod(pod)
        spec = pod.spec
        if kept and spec.node_name:
            for uid in (pod.metadata.uid, *self._ledger.holders_on(spec.node_name)[:NEIGHBOURS]):
                known = self.live.get(uid)
                # Containers that are equal are the same object: few others need to be compared.
                if known and known.spec.containers is spec.containers and known.spec == spec:
                    force_setattr(pod, "spec", known.spec)
                    break
        return kept

    def reread(self, pod: Pod) -> None:
        """What the claims of a known pod say has changed; the lock is held."""
        self._put((pod,))

    def _put(self, items: Iterable[Pod]) -> None:
        super()._put(items if self.joined is None else map(self.joined, items))

    def key(self, pod: Pod) -> str:
        """Its uid."""
        return pod.metadata.uid

    def accepts(self, pod: Pod) -> bool:
        """Whether the state is not older than the known one, and the pod was not deleted."""
        return self._ledger.apply_pod(pod)

    def releases(self, uid: str, version: str) -> bool:
        """Whether no newer state is known: a pod read separately since the list stays."""
        self._ledger.forget_pod(uid, version)
        return not self._ledger.knows(uid)

    def known(self) -> AbstractSet[str]:
        """The uids of all pods, also of those without GPUs."""
        return self._ledger.pods


def gpu_pod(pod: Pod) -> Pod | None:
    """The pod if it has not ended and requests GPUs."""
    try:
        return pod if not is_terminal(pod) and asks_for_gpus(pod) else None
    except QuantityError:
        return None


def _annotated(pod: Pod) -> Pod | None:
    notes = pod.metadata.annotations or ()
    is_annotated = not RECLAIMER_ANNOTATIONS.isdisjoint(notes) or has_condition(pod, names.DISRUPTION_TARGET)
    return gpu_pod(pod) if is_annotated else None


def _queued(pod: Pod) -> Pod | None:
    return gpu_pod(pod) if is_queued(pod) else None


def _stripped(pod: Pod) -> Pod | None:
    if not pod.metadata.annotation(names.STRIPPED) or is_terminal(pod) or gpu_pod(pod):
        return None
    return pod


def _log_bad_hold(_uid: str, before: Pod | None, pod: Pod | None) -> None:
    """Log, once, a hold that cannot be read; such a hold is ignored."""
    text = pod.metadata.annotation(names.HOLD) if pod else None
    if pod is None or text is None or (before and before.metadata.annotation(names.HOLD) == text):
        return
    if gpu_pod(pod) is None:
        return
    try:
        hold_of(pod)
    except HoldError as error:
        log.warning("the hold on a pod cannot be read and is ignored", pod=pod.key, error=str(error))
