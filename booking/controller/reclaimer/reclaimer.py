"""The loop of the leading controller: take a snapshot of the cluster, do what is due, repeat.

Triggered by every change of the cache; at least twice a second, for what is due by time alone.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import structlog

from booking.controller.reclaimer.api_failures import ApiFailures
from booking.controller.reclaimer.conflicts.conflict_rules import ConflictRules
from booking.controller.reclaimer.conflicts.given_back import GivenBack
from booking.controller.reclaimer.context import ReclaimerContext, WriteEvent
from booking.controller.reclaimer.ending.booking_ends import Ending, about_to_end, is_mirror_fresh, to_end
from booking.controller.reclaimer.ending.cover_annotations import CoverAnnotations
from booking.controller.reclaimer.ending.end_warnings import EndWarnings
from booking.controller.reclaimer.ending.evict_orders import Orders, ordered_to_go
from booking.controller.reclaimer.ending.maia_requests import MaiaRequests, requested_to_end
from booking.controller.reclaimer.evictions.comeback import has_our_finalizer, is_marked_for_disruption
from booking.controller.reclaimer.evictor import Evictor
from booking.controller.reclaimer.executor import Executor, in_turn
from booking.controller.reclaimer.fair_shares.broken_gangs import BrokenGangs
from booking.controller.reclaimer.fair_shares.foreseen import Foreseen
from booking.controller.reclaimer.fair_shares.record import RecordStore
from booking.controller.reclaimer.fair_shares.turns import Turns
from booking.controller.reclaimer.holds.hold_controller import HoldController
from booking.controller.reclaimer.holds.over_users import OverUsers
from booking.controller.reclaimer.metrics import ReclaimerMetrics
from booking.controller.reclaimer.planning.node_candidates import PlanningInputs
from booking.controller.reclaimer.planning.plan import Plan, plan, plan_with_others, plan_without_victims
from booking.controller.reclaimer.queue_gates import QueueGates
from booking.controller.reclaimer.reservations.manifest import ReservationTerms
from booking.controller.reclaimer.reservations.reservations import Reservations
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot, take
from booking.controller.reclaimer.stripped_pods import StrippedPods
from booking.eviction.holder_cache import HolderCache
from booking.eviction.settings import EvictionSettings
from booking.eviction.snapshot import VictimPolicy
from booking.eviction.victims import LEAST_LOST_WORK
from booking.policy.fair_shares import FairShares
from cluster.cache import BookingPlans, ClusterCache, read_bookings
from cluster.decide.queueing import Order, by_priority_and_age
from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube
from cluster.objects.nodes import Node
from cluster.objects.pods import is_live
from cluster.process.clock import Clock
from cluster.process.stop_events import wake_at

log = structlog.get_logger(__name__)

RECOVERS_WITHIN: Final = 30.0
"""Seconds within which every live node has renewed its Lease: a request may have to time out first."""
_UNREACHABLE: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Keys of the taints with which Kubernetes marks nodes whose kubelet is unresponsive."""
EVERY: Final = 0.5
"""Seconds between two passes when nothing changes."""
NO_SHARES: Final = FairShares(mode="off")
WRITES_FOR: Final = 0.25
"""Seconds in which one pass writes holds. To act on them takes a few times as long, and pods that have left
by then come back in the next pass: they must not wait until hundreds of others have been evicted."""
LONG: Final = 1000
"""Pods behind our gate from which on the thread rests after each pass: one follows the other while they are
created, and what the passes take others lack."""
RESTS: Final = 3
"""It rests this many times as long as the pass took of the processor, at most ``RESTS_FOR`` seconds."""
RESTS_FOR: Final = 0.05
READ_EVERY: Final = 10.0
"""Seconds after which nodes are read though no pod waits: so a plan is made soon, and no old pod is kept."""


@dataclass(frozen=True, kw_only=True)
class Guards:
    """Whether anything may be done now."""

    leads: Callable[[], bool]
    """Whether this process is the leader."""
    unready_reason: Callable[[], str | None]
    """Why the cache cannot be trusted, None when it can (law L6)."""

    def permit(self) -> bool:
        """Whether both allow it at this moment."""
        return self.leads() and self.unready_reason() is None


class Reclaimer:
    """The whole reclaimer. ``run`` is the body of a thread."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        cache: ClusterCache,
        *,
        guards: Guards,
        evictor: Evictor,
        write_event: WriteEvent,
        terms: EvictionSettings,
        metrics: ReclaimerMetrics,
        executor: Executor = in_turn,
        order: Order = by_priority_and_age,
        victims: VictimPolicy = LEAST_LOST_WORK,
        fair_shares: Callable[[], FairShares] = lambda: NO_SHARES,
        reservations: ReservationTerms | None = None,
        processor: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Args: write_event: writes an Event on a pod; executor: runs requests concurrently.

        ``order`` is that of the pods that wait for what is free; ``victims`` tells who may be evicted;
        ``fair_shares``: how GPUs without a booking are divided; ``reservations``: how GPUs of nodes with
        another device plugin are opened for shares, None where they are not; ``processor``: seconds of
        processor time that the thread which runs this has used.
        """
        self._processor = processor
        self._kube = kube
        self._clock = clock
        self._cache = cache
        self._guards = guards
        self._evictor = evictor
        self._metrics = metrics
        self._terms, self._victims = terms, victims
        self._fair_shares = fair_shares
        self._turns = Turns(clock, fair_shares, RecordStore(kube, terms.namespace))
        self._holder_cache = HolderCache()
        self._booking_plans = BookingPlans(cache)
        self._read = -READ_EVERY
        self._failures = ApiFailures(metrics)
        context = self._context(write_event, executor)
        self._holding = HoldController(context, terms)
        self._conflict_rules = ConflictRules(context, terms.dra_driver)
        self._given_back = GivenBack(context, terms.dra_driver)
        self._ending = Ending(context, terms)
        self._maia_requests = MaiaRequests(context, terms)
        self._orders = Orders(context, terms)
        self._over_users = OverUsers(context, terms)
        self._cover_annotations = CoverAnnotations(context)
        self._end_warnings = EndWarnings(context, terms)
        self._reservations = Reservations(context, reservations, terms.namespace)
        self._gates = QueueGates(context, terms, order)
        self._broken_gangs = BrokenGangs(context, terms)
        self._stripped_pods = StrippedPods(write_event)
        self._foreseen = Foreseen(write_event)
        self._led = False
        self._blocked: str | None = None
        self._changed = threading.Event()
        self._triggered_at: float | None = None
        """Since when there has been a change that no pass has seen."""
        cache.on_change(self.trigger)

    def _context(self, write_event: WriteEvent, executor: Executor) -> ReclaimerContext:
        """What the state machines share."""
        return ReclaimerContext(
            kube=self._kube,
            clock=self._clock,
            evictor=self._evictor,
            write_event=write_event,
            metrics=self._metrics,
            failures=self._failures,
            executor=executor,
            read_bookings=self._read_bookings,
            instant=self._snapshot,
            seen=self._cache.pods.get,
            turn_problem=lambda pod, hold, now: self._turns.problem(pod, hold, now, self._holder_cache),
            taken=self._turns.accounts.note_taken,
            awaited=lambda uid: any(uid == pod for pod, _ in self._cache.barred(self._clock.now())),
            may_act=self._guards.permit,
        )

    def run(self, stop: threading.Event) -> None:
        """Reconcile until ``stop`` is set."""
        wake_at(stop, self._changed)
        while not stop.is_set():
            self._clock.wait(self._changed, self._pause())
            if stop.is_set():
                return
            begun = self._processor()
            if not self.round():
                # A refused request is not repeated with every change of the cluster.
                self._clock.wait(stop, EVERY)
            elif len(self._cache.queued) >= LONG:
                self._clock.wait(stop, min(RESTS * (self._processor() - begun), RESTS_FOR))

    def _pause(self) -> float:
        """Seconds until the next pass if nothing changes."""
        due = self._turns.due
        return EVERY if due is None else min(EVERY, max(0.0, due - self._clock.monotonic()))

    @property
    def is_triggered(self) -> bool:
        """Whether something has changed that no pass has seen."""
        return self._changed.is_set()

    def round(self) -> bool:
        """One pass for all that has changed until now; returns whether every request of it was answered."""
        self._changed.clear()
        before = self._failures.count
        self.reconcile()
        return self._failures.count == before

    def trigger(self) -> None:
        """Something has changed: reconcile at once. Thread-safe."""
        if self._triggered_at is None:
            self._triggered_at = self._clock.monotonic()
        self._changed.set()

    def reconcile(self) -> None:
        """One pass; does nothing unless this process leads and the cache can be trusted."""
        if not self._may_act():
            if self._led:
                with self._cache.locked():
                    queued = list(self._cache.queued.values())
                self._gates.reconcile_unknown(queued)
            else:
                self._gates.stop_leading()
            self._turns.forget()
            return
        started = self._clock.monotonic()
        needed, self._triggered_at = started if self._triggered_at is None else self._triggered_at, None
        snapshot = self._snapshot()
        self._advance_comebacks(snapshot)
        self._conflict_rules.reconcile(snapshot)
        self._ending.reconcile(snapshot)
        self._maia_requests.reconcile(snapshot)
        if not is_recovering(snapshot):
            self._orders.reconcile(snapshot)
            self._over_users.reconcile(snapshot)
            self._holding.ask_again(snapshot)
            snapshot = self._moved(snapshot)
            self._holding.reconcile(snapshot)
            self._plan(snapshot, since=needed)
            self._give_turns(snapshot, since=needed)
            self._reservations.reconcile(snapshot)
        self._gates.reconcile(
            snapshot, without_a_turn=self._turns.without_a_turn(), joining=self._turns.joining
        )
        self._report_stripped(snapshot)
        # Last: an annotation changes the pod's resourceVersion, and the writes before it carry the one that
        # was seen.
        self._cover_annotations.reconcile(snapshot)
        self._end_warnings.reconcile(snapshot)
        if not is_recovering(snapshot):
            self._given_back.reconcile(snapshot)
        if started - self._read >= READ_EVERY:
            self._holder_cache.at(snapshot)
            self._read = started
        self._metrics.reconcile_seconds.observe(self._clock.monotonic() - started)

    def _may_act(self) -> bool:
        leads, unready_reason = self._guards.leads(), self._guards.unready_reason()
        if leads != self._led:
            log.info(
                "this controller reclaims GPUs" if leads else "this controller does not reclaim GPUs any more"
            )
            self._holding.start_timers_again()
        if leads and unready_reason != self._blocked:
            log.warning("nothing is reclaimed", reason=unready_reason) if unready_reason else log.info(
                "GPUs are reclaimed again"
            )
            self._holding.start_timers_again()
        self._led, self._blocked = leads, unready_reason
        return leads and unready_reason is None

    def lacking(self) -> Mapping[str, float]:
        """Model that somebody waits for -> GPUs that users who wait have less than they deserve."""
        return {
            model: float(shares.starvation) for model, shares in dict(self._turns.accounts.shares).items()
        }

    def starved_users(self) -> Mapping[str, float]:
        """Model that somebody waits for -> users who wait and have less than they deserve."""
        return {
            model: float(sum(map(shares.is_starved, (one for one in shares.wanted if one.user))))
            for model, shares in dict(self._turns.accounts.shares).items()
        }

    @property
    def _gives_turns(self) -> bool:
        return self._fair_shares().effective(maia=self._terms.maia) != "off"

    def _give_turns(self, snapshot: ReclaimerSnapshot, *, since: float) -> None:
        """Free devices to waiting pods without a booking, in the order of fair shares."""
        if not self._gives_turns:
            self._turns.forget()
            return
        if self._holding.shows_dropped_hold:
            return
        try:
            self._turns.accounts.remember()
        except ApiError as error:
            self._failures.note("record of fair shares", "", error)
        if self._turns.rest(snapshot):
            self._broken_gangs.forget()
            self._foreseen.reconcile({})
            return
        if not self._turns.is_due():
            return
        snapshot = self._snapshot()
        self._broken_gangs.reconcile(snapshot, self._holding.release)
        plans = self._turns.plans(snapshot, self._inputs(snapshot), self._holder_cache)
        self._foreseen.reconcile(self._turns.foreseen())
        self._are_written(plans, since=since)
        self._holding.begin(snapshot)

    def _snapshot(self) -> ReclaimerSnapshot:
        now = take(
            self._cache,
            self._clock,
            self._terms,
            self._booking_plans,
            policy=self._victims,
            gives_turns=self._gives_turns,
        )
        return self._holding.completed(now)

    def _read_bookings(self) -> None:
        """Read the Bookings that our watch may not have shown yet.

        A user whose booking was just confirmed must not lose a pod because a watch lags (law L2).
        """
        read_bookings(self._kube, self._cache)

    def _advance_comebacks(self, snapshot: ReclaimerSnapshot) -> None:
        """Comebacks first: a pod that has left already must not wait for anything else."""
        ordered = (pod.metadata.uid for pod, _ in ordered_to_go(snapshot))
        wanted = {*snapshot.victims, *snapshot.over_users, *ordered, *self._broken_gangs.going}
        wanted |= {pod.metadata.uid for pod in self._reservations.strays(snapshot)}
        if is_mirror_fresh(snapshot):
            wanted |= {pod.metadata.uid for _, pod in to_end(snapshot)}
        if self._terms.maia:
            wanted |= {pod.metadata.uid for pod in requested_to_end(snapshot)}
        try:
            self._evictor.reconcile(frozenset(wanted))
        except ApiError as error:
            self._failures.note("comebacks", "", error)
        for pod in snapshot.annotated.values():
            if (
                pod.metadata.uid not in wanted
                and is_live(pod)
                and is_marked_for_disruption(pod)
                and not has_our_finalizer(pod)
            ):
                try:
                    self._evictor.clear_disruption(pod)
                except ApiError as error:
                    self._failures.note("clear condition", pod.key, error)

    def _moved(self, snapshot: ReclaimerSnapshot) -> ReclaimerSnapshot:
        """The snapshot after a pod for which others would have to leave has got free devices instead.

        Or devices of other pods, where budgets protect those.
        """
        movable = self._holding.movable(snapshot)
        if not movable or self._holding.shows_dropped_hold:
            return snapshot
        inputs = self._inputs(snapshot)
        found = plan_without_victims(snapshot, inputs, self._holder_cache, movable)
        found = found or self._with_other_victims(snapshot, inputs)
        if found is None:
            return snapshot
        try:
            self._holding.move(snapshot, found)
        except ApiError as error:
            self._failures.note("plan", found.pod.key, error)
        return self._snapshot()

    def _with_other_victims(self, snapshot: ReclaimerSnapshot, inputs: PlanningInputs) -> Plan | None:
        """Victims that no budget protects; where there are none, the cheapest of those that budgets protect.

        The latter only where budgets were just learnt of: later the hold stands, whoever is cheaper by then.
        """
        blocked = self._holding.blocked(snapshot)
        if found := plan_with_others(snapshot, inputs, self._holder_cache, blocked):
            return found
        less = replace(inputs, excluded=inputs.excluded - self._holding.protected)
        for pod in filter(self._holding.settle, blocked):
            found = plan_with_others(snapshot, less, self._holder_cache, [pod])
            if found and found.hold.victims != snapshot.holds[pod.metadata.uid].victims:
                return found
        return None

    def _report_stripped(self, snapshot: ReclaimerSnapshot) -> None:
        with self._cache.locked():
            stripped = dict(self._cache.stripped)
        self._stripped_pods.reconcile(stripped, snapshot.now)

    def _inputs(self, snapshot: ReclaimerSnapshot) -> PlanningInputs:
        return PlanningInputs(excluded=self._holding.excluded, ending=about_to_end(snapshot, self._terms))

    def _plan(self, snapshot: ReclaimerSnapshot, *, since: float) -> None:
        if self._holding.shows_dropped_hold:
            return
        inputs = self._inputs(snapshot)
        plans = plan(snapshot, inputs, self._holder_cache)
        if self._are_written(plans, since=since):
            in_vain = self._plan_despite_blockers(snapshot, inputs, plans, since=since)
            self._holding.begin(snapshot)
            self._holding.tell(snapshot, in_vain)
        else:
            self._holding.begin(snapshot)

    def _plan_despite_blockers(
        self, snapshot: ReclaimerSnapshot, inputs: PlanningInputs, plans: list[Plan], *, since: float
    ) -> list[Plan]:
        """Write holds that only budgets stand against; returns the plans that other blockers make useless.

        Args:
            snapshot: this instant.
            inputs: they exclude pods that cannot be evicted.
            plans: those without such pods, written.
            since: when this became necessary, monotonic.
        """
        if not self._holding.excluded:
            return []
        holds = {one.pod.metadata.uid: one.hold for one in plans}
        less = replace(inputs, excluded=inputs.excluded - self._holding.protected)
        for_budgets = (
            plan(snapshot.with_holds(holds), less, self._holder_cache) if self._holding.protected else []
        )
        self._are_written(for_budgets, since=since)
        holds |= {one.pod.metadata.uid: one.hold for one in for_budgets}
        least = replace(inputs, excluded=inputs.excluded - self._holding.excluded)
        return plan(snapshot.with_holds(holds), least, self._holder_cache)

    def _are_written(self, plans: list[Plan], *, since: float) -> bool:
        """Write holds; returns whether there was time for all. The rest is planned again in the next pass."""
        begun = self._clock.monotonic()
        gang = ""
        for one in plans:
            if self._clock.monotonic() - begun >= WRITES_FOR and not (gang and one.gang == gang):
                self._triggered_at = since
                self._changed.set()
                return False
            gang = one.gang
            try:
                self._holding.write(one, needed=since)
            except ApiError as error:
                self._failures.note("plan", one.pod.key, error)
            else:
                if one.hold.need == "share":
                    self._metrics.turns.labels("taken" if one.hold.victims else "free").inc()
        return True


def is_recovering(snapshot: ReclaimerSnapshot) -> bool:
    """Whether Leases may look expired only because the API server was away.

    After an outage of a minute all signs of life are old: agents' Leases, and the kubelets' own, so
    Kubernetes calls nodes not ready a moment after the API server is back. Which node renews its Leases first
    is chance: a plan made in that moment would take GPUs from a node only because it was faster, and a hold
    would be dropped for a node that is about to renew its Lease (law L3).
    """
    since = snapshot.since_watch_stale
    if since is None or since >= RECOVERS_WITHIN:
        return False
    agents = (agent for _, agent in snapshot.node_snapshots.values())
    return any(agent == "unresponsive" for agent in agents) or any(
        not _is_reachable(node) for node in snapshot.nodes.values()
    )


def _is_reachable(node: Node) -> bool:
    """Whether the node's kubelet responds to Kubernetes; a node that reports nothing counts as reachable."""
    ready = next((c.status for c in node.status.conditions or () if c.type == "Ready"), "True")
    return ready == "True" and not any(taint.key in _UNREACHABLE for taint in node.spec.taints or ())
