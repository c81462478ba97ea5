"""Booked pods that only disruption budgets keep waiting, and for which a budget is passed over at last.

A pod waits for budgets alone when no plan can be made for it without pods that a budget has just protected,
and one can be made with them. Since when is written on it (``names.BUDGETS_SINCE``), so that the time goes on
when a controller starts again or another leads: a new one knows of no budget, plans as usual, is refused and
knows then. The mark is taken off when the pod waits for another reason, or somebody whom no budget protects
has left for it, and by its Binding: a pod that budgets keep waiting again waits the whole time again.

Only where the settings give a limit is any of this done.
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
    """What a round of planning has found, where some pods are protected by budgets."""

    plans: tuple[Plan, ...]
    """For pods that only budgets keep waiting: what would be done without them."""
    others: tuple[Pod, ...]
    """Pods that are marked so, and are not kept waiting by budgets alone any more."""


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
        snapshot: the instant that ``plans`` were made on.
        inputs: what they were made with; it leaves ``protected`` out.
        holder_cache: what was read of the nodes for them.
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
        for uid, pod in snapshot.noted.items()
        if pod.metadata.annotation(names.BUDGETS_SINCE) and uid not in waiting and _is_waiting(pod)
    )
    return Waits(plans=tuple(found), others=tuple(others))


def since(pod: Pod) -> datetime | None:
    """Since when only budgets keep the pod waiting; None where the annotation is missing or unreadable."""
    try:
        said = msgspec.convert(pod.metadata.annotation(names.BUDGETS_SINCE) or "", datetime)
    except msgspec.ValidationError:
        return None
    return said if said.tzinfo else None


class Budgets:
    """Measures the waiting, and says whose budget may be passed over. For one thread."""

    def __init__(self, context: ReclaimerContext, terms: EvictionSettings) -> None:
        self._context = context
        seconds = terms.budget_override_seconds
        self._limit = None if seconds is None else timedelta(seconds=seconds)
        self._asked = RecentRequests(context.clock)
        self._protected: set[str] = set()
        self._passing: dict[str, str] = {}
        """Uid of a booked pod -> the hold for which budgets are passed over."""

    def protects(self, victim: Pod) -> None:
        """A budget has just protected this pod."""
        self._protected.add(victim.metadata.uid)

    def overdue(
        self, snapshot: Snapshot, inputs: PlanningInputs, holder_cache: HolderCache, plans: list[Plan]
    ) -> list[Plan]:
        """Plans that are to be carried out whatever budgets say; ``plans`` are all others."""
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
        """For the hold that was just written on this pod budgets are passed over."""
        self._passing[pod.metadata.uid] = pod.metadata.annotation(names.HOLD) or ""

    def is_passed_over(self, pod: Pod) -> bool:
        """Whether they are for the hold on this pod.

        A process that starts again does not know, and finds it out as the one before did.
        """
        return self._passing.get(pod.metadata.uid) == (pod.metadata.annotation(names.HOLD) or "")

    def served(self, pod: Pod) -> None:
        """Somebody whom no budget protects has left for this pod."""
        if pod.metadata.annotation(names.BUDGETS_SINCE):
            self._mark(pod, None)

    def _is_overdue(self, pod: Pod, now: datetime) -> bool:
        begun = since(pod)
        return begun is not None and self._limit is not None and now - begun >= self._limit

    def _mark(self, pod: Pod, text: str | None) -> None:
        meta = pod.metadata
        if not self._asked.is_due((meta.uid, text is None)):
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
