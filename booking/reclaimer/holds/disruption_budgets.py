"""Booked pods that wait only for disruption budgets, and overriding a budget for them at last.

A pod waits for budgets alone when no plan can be made for it without pods that a budget has just protected,
and one can be made with them. The start of the wait is written on it (``names.BUDGETS_SINCE``), so that the
time continues when a controller restarts or another leads: a new leader knows of no budget, plans as usual,
is refused and knows then. The annotation is removed when the pod waits for another reason, when a pod that no
budget protects has left for it, and by its Binding: if budgets keep it waiting again, the full time starts
again.

All of this happens only if the settings give a limit.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec
import structlog

from booking.eviction.holder_cache import HolderCache
from booking.eviction_settings import EvictionSettings
from booking.reclaimer.context import ReclaimerContext
from booking.reclaimer.planning.node_candidates import PlanningInputs
from booking.reclaimer.planning.plan import Plan, plan
from booking.reclaimer.recent_requests import RecentRequests
from booking.reclaimer.snapshot import Snapshot
from booking.wording import iso
from cluster import names
from cluster.kube.errors import ApiError, NotFound
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod, is_live

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Waits:
    """The result of planning where budgets protect some pods."""

    plans: tuple[Plan, ...]
    """Plans that disregard budgets, for pods that only budgets keep waiting."""
    others: tuple[Pod, ...]
    """Pods that have the annotation, but wait for more than budgets by now."""


def waits(
    snapshot: Snapshot,
    inputs: PlanningInputs,
    holder_cache: HolderCache,
    *,
    protected: frozenset[str],
    plans: list[Plan],
) -> Waits:
    """The booked pods that wait for nothing but disruption budgets.

    Args:
        snapshot: the one that ``plans`` were made on.
        inputs: those of ``plans``; they exclude ``protected``.
        holder_cache: the holders that were computed for them.
        protected: uids of pods that a budget has just protected.
        plans: all plans that can be made.
    """
    planned = {one.pod.metadata.uid: one.hold for one in plans}
    found: list[Plan] = []
    if protected:
        without = PlanningInputs(excluded=inputs.excluded - protected, ending=inputs.ending)
        found = plan(snapshot.with_holds(planned), without, holder_cache)
    waiting = {one.pod.metadata.uid for one in found} | planned.keys() | snapshot.holds.keys()
    others = (
        pod
        for uid, pod in snapshot.annotated.items()
        if pod.metadata.annotation(names.BUDGETS_SINCE) and uid not in waiting and _is_waiting(pod)
    )
    return Waits(plans=tuple(found), others=tuple(others))


def since(pod: Pod) -> datetime | None:
    """Since when only budgets keep the pod waiting; None where the annotation is missing or unreadable."""
    try:
        instant = msgspec.convert(pod.metadata.annotation(names.BUDGETS_SINCE) or "", datetime)
    except msgspec.ValidationError:
        return None
    return instant if instant.tzinfo else None


class Budgets:
    """Measures the wait, and decides for whom budgets are overridden. Not thread-safe."""

    def __init__(self, context: ReclaimerContext, terms: EvictionSettings) -> None:
        self._context = context
        seconds = terms.budget_override_seconds
        self._limit = None if seconds is None else timedelta(seconds=seconds)
        self._recent_requests = RecentRequests(context.clock)
        self._protected: set[str] = set()
        self._passing: dict[str, str] = {}
        """Uid of a booked pod -> the hold for which budgets are overridden."""

    def protects(self, victim: Pod) -> None:
        """Record that a budget has just protected this pod."""
        self._protected.add(victim.metadata.uid)

    def overdue(
        self, snapshot: Snapshot, inputs: PlanningInputs, holder_cache: HolderCache, plans: list[Plan]
    ) -> list[Plan]:
        """Plans that must be carried out despite budgets; ``plans`` are all others."""
        if self._limit is None:
            return []
        self._protected &= snapshot.pods.keys()
        self._passing = {uid: text for uid, text in self._passing.items() if uid in snapshot.pods}
        protected = inputs.excluded & frozenset(self._protected)
        found = waits(snapshot, inputs, holder_cache, protected=protected, plans=plans)
        for pod in found.others:
            self._mark(pod, None)
        for one in found.plans:
            if since(one.pod) is None:
                self._mark(one.pod, iso(snapshot.now))
        return [one for one in found.plans if self._is_overdue(one.pod, snapshot.now)]

    def pass_over(self, pod: Pod) -> None:
        """Override budgets for the hold that was just written on this pod."""
        self._passing[pod.metadata.uid] = pod.metadata.annotation(names.HOLD) or ""

    def is_passed_over(self, pod: Pod) -> bool:
        """Whether budgets are overridden for the hold on this pod.

        Not remembered across a restart: the new process finds it out as the old one did.
        """
        return self._passing.get(pod.metadata.uid) == (pod.metadata.annotation(names.HOLD) or "")

    def served(self, pod: Pod) -> None:
        """Record that a pod that no budget protects has left for this pod."""
        if pod.metadata.annotation(names.BUDGETS_SINCE):
            self._mark(pod, None)

    def _is_overdue(self, pod: Pod, now: datetime) -> bool:
        begun = since(pod)
        return begun is not None and self._limit is not None and now - begun >= self._limit

    def _mark(self, pod: Pod, text: str | None) -> None:
        meta = pod.metadata
        if not self._recent_requests.is_due((meta.uid, text is None)):
            return
        body = {"metadata": {"uid": meta.uid, "annotations": {names.BUDGETS_SINCE: text}}}
        try:
            self._context.kube.patch(PODS, meta.name, body, namespace=meta.namespace)
        except NotFound:
            return
        except ApiError as error:
            self._context.failures.note("disruption budgets", pod.key, error)
            return
        event = (
            "only disruption budgets keep a pod waiting"
            if text
            else "disruption budgets do not keep a pod waiting"
        )
        log.info(event, pod=pod.key)


def _is_waiting(pod: Pod) -> bool:
    return is_live(pod) and not pod.spec.node_name and not pod.metadata.annotation(names.HOLD)
