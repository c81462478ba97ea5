"""Evicting pods by an administrator's order, booked or not.

The order is an annotation on the pod that only the booking server writes, so any leader finds it. It concerns
this pod only, and does not depend on bookings: a stale Lease of the mirror does not stop it. The pod comes
back by its policy, like a victim; a pod that is never evicted is not evicted by order either. What refuses
the eviction is told on the pod, and it is tried again after growing pauses; budgets count as long as for a
booking.
"""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

import structlog

from booking.controller.reclaimer.context import ReclaimerContext
from booking.controller.reclaimer.ending.refused_evictions import RefusedEvictions
from booking.controller.reclaimer.evictions.comeback import on_eviction
from booking.controller.reclaimer.evictions.refusals import is_overload, protected_by, sentence
from booking.controller.reclaimer.evictor import EvictionCause, ProtectedError, TooLateError
from booking.controller.reclaimer.recent_requests import RecentRequests
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.eviction.settings import EvictionSettings
from cluster import event_reasons
from cluster.decide.protection import never_evicted_reason
from cluster.kube.errors import ApiError, StatusError
from cluster.objects.evict_orders import EvictOrder, order_of
from cluster.objects.pods import Pod, is_live

log = structlog.get_logger(__name__)

_BEGIN: Final = "An administrator has ordered this pod to go, but"


def ordered_to_go(snapshot: ReclaimerSnapshot) -> list[tuple[Pod, EvictOrder]]:
    """Live pods with a valid order, on nodes whose state is known."""
    home = snapshot.terms.namespace
    return [
        (pod, order)
        for pod in snapshot.annotated.values()
        if is_live(pod)
        and _is_node_known(pod, snapshot)
        and (order := order_of(pod)) is not None
        and never_evicted_reason(pod, namespaces=snapshot.namespaces, home=home) is None
    ]


def _is_node_known(pod: Pod, snapshot: ReclaimerSnapshot) -> bool:
    """Whether the state of the pod's node is known (law L6); a waiting pod holds nothing."""
    node_snapshot = snapshot.node_snapshots.get(pod.spec.node_name or "")
    return node_snapshot is not None and node_snapshot[1] != "unresponsive"


class Orders:
    """Carries out the orders. Not thread-safe."""

    def __init__(self, context: ReclaimerContext, terms: EvictionSettings) -> None:
        self._context = context
        self._terms = terms
        seconds = terms.budget_override_seconds
        self._limit = None if seconds is None else timedelta(seconds=seconds)
        self._recent_requests = RecentRequests(context.clock)
        self._refused = RefusedEvictions(context)

    def reconcile(self, snapshot: ReclaimerSnapshot) -> None:
        """Take one step for each order; a step that fails is tried again in the next pass."""
        self._refused.forget_all_but(snapshot.pods)
        for pod, order in ordered_to_go(snapshot):
            uid = pod.metadata.uid
            if not self._refused.is_pausing(uid) and self._recent_requests.is_due(uid):
                try:
                    self._evict(pod, order)
                except StatusError as error:
                    self._context.failures.note("order to evict", pod.key, error)
                    if not is_overload(error):
                        self._refused.note_error(pod, error, begin=_BEGIN)
                except ApiError as error:
                    self._context.failures.note("order to evict", pod.key, error)

    def _evict(self, pod: Pod, order: EvictOrder) -> None:
        why = EvictionCause(
            "evicted",
            f"The administrator {order.by} has ordered that this pod must go: {order.reason}",
            self._terms.longest_grace_seconds,
            back=on_eviction(pod, is_awaited=self._context.awaited(pod.metadata.uid)),
            event_reason=event_reasons.EVICTED_BY_ADMINISTRATOR,
        )
        evict = partial(
            self._context.evictor.evict, pod, is_valid=partial(self._is_still_ordered, pod.metadata.uid)
        )
        try:
            try:
                evict(why)
            except ProtectedError as error:
                blocker = protected_by(error.budgets, pod.metadata.namespace)
                if self._limit is None or self._context.clock.now() < order.at + self._limit:
                    self._refused.note(pod, blocker, begin=_BEGIN)
                    return
                evict(replace(why, overrides_budget=True))
                self._context.metrics.budgets_overridden.inc()
                message = f"{why.message}. {sentence(blocker.why)}, but not any longer."
                self._context.write_event(pod, event_reasons.BUDGET_OVERRIDDEN, message)
        except TooLateError as error:
            log.info("an order to evict is not carried out now", pod=pod.key, reason=str(error))
            return
        self._context.metrics.terminations.labels("evicted").inc()

    def _is_still_ordered(self, uid: str) -> bool:
        begun = self._context.clock.monotonic()
        again = {pod.metadata.uid for pod, _ in ordered_to_go(self._context.instant())}
        return uid in again and self._context.is_fresh(begun)
