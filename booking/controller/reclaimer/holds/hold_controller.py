"""From a plan to a bound pod: hold, re-validate, notice, evict, wait (ARCHITECTURE.md, laws L2 and L3).

All state is in the objects: the hold on the booked pod names devices and victims, so any process can continue
from it. Memory holds only timers, which may start again. A hold is acted on in the pass that writes it: the
dry run of a victim's replacement runs while the hold is written, and the victim is prepared while our watch
delivers the hold. No pod is evicted before the watch has delivered it (``revalidation``).

::

    planned ──write──> held ──free devices stay so for 2 s──> victims notified ──notice over──> victims leave
                        │                                                                            │
                        └────────────── its premises are not true any more: dropped ─────────────────┤
                                                                                                     v
    hold and bars empty <──bound── the pod may be bound <───────── every device is free ─────────────┘
                                       └──not bound for 10 s: dropped, and the node is barred for the pod

While no victim has been evicted, the hold moves to other devices if they become free (``move``), and to other
victims if budgets protect its own. The devices of a victim that hangs in Terminating cannot be counted on
(``hold_status``): the hold is dropped. It also is where something other than a budget refuses an eviction. A
pod that could not be evicted is left out of the plans until the API server says otherwise (``ask_again``).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import structlog
from msgspec.structs import replace

from booking.controller.reclaimer.context import ReclaimerContext
from booking.controller.reclaimer.holds.barred_nodes import BarredNodes
from booking.controller.reclaimer.holds.blockers import Blockers
from booking.controller.reclaimer.holds.disruption_budgets import Block
from booking.controller.reclaimer.holds.gang_starts import to_start
from booking.controller.reclaimer.holds.hold_status import HoldStatus, hold_status
from booking.controller.reclaimer.holds.notice_due import Notice
from booking.controller.reclaimer.holds.scheduler_health import BEHIND_AT_MOST, could_bind, is_behind
from booking.controller.reclaimer.holds.taint_rules import TaintRules
from booking.controller.reclaimer.holds.victim_eviction import Case, NotNowError, VictimEviction
from booking.controller.reclaimer.planning.plan import Plan
from booking.controller.reclaimer.recent_requests import RecentRequests
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.eviction.settings import EvictionSettings
from cluster import event_reasons, names
from cluster.decide.explain import hold_message
from cluster.decide.ledger.resource_versions import is_older
from cluster.kube.errors import ApiError, Conflict, NotFound
from cluster.kube.resources import PODS
from cluster.objects.gangs import Gang, gang_of
from cluster.objects.hold import Hold, encode_hold
from cluster.objects.pods import Pod, is_live
from cluster.objects.scheduling_gates import is_queued, other_gates, out_of_line

log = structlog.get_logger(__name__)

BIND_DEADLINE: Final = 2.0
"""Seconds in which a bind that was decided before the hold may still take one of its free devices."""
BOUND_WITHIN: Final = 10.0
"""Seconds for the scheduler to bind the pod once every device of its hold is free."""
SEEN_WITHIN: Final = 5.0
"""Seconds within which our watch delivers a hold that we wrote."""
PAUSED_FOR: Final = 10.0
"""Seconds for a node agent that is stopping to start again."""


@dataclass
class _Timer:
    """What this process has observed of one hold; monotonic seconds."""

    text: str
    seen: float | None = None
    """When it was first seen without any problem."""
    had_free: bool = False
    """Whether some of its devices were free then: an earlier bind may be on its way to them."""
    notices: dict[str, Notice] = field(default_factory=dict)
    """Uid of a victim -> its notice."""
    checked: set[str] = field(default_factory=set)
    """Uids of victims that may be evicted, as the API server has said."""
    paused: float | None = None
    complete: float | None = None
    behind: float | None = None
    """Since when the extender reports that it cannot bind the pod now."""


@dataclass(frozen=True, slots=True)
class _Written:
    """A hold that was written and that our cache may not show yet."""

    hold: Hold
    pod: Pod
    """The pod with the hold on it, as returned by the API server."""
    at: float
    """The monotonic instant at which the write was requested."""


class HoldController:
    """Advances every hold as far as it can go. Not thread-safe."""

    def __init__(self, context: ReclaimerContext, terms: EvictionSettings) -> None:
        self._context = context
        self._kube = context.kube
        self._clock = context.clock
        self._blockers = Blockers(context, terms)
        self._victim_eviction = VictimEviction(context, terms)
        self._bars = BarredNodes(context.kube, context.clock)
        self._recent_requests = RecentRequests(context.clock)
        self._taint_rules = TaintRules(context.kube, context.clock, context.failures, terms.dra_driver)
        self._timers: dict[str, _Timer] = {}
        self._written: dict[str, _Written] = {}
        self._begun: list[_Written] = []
        """Holds that were written in this pass."""
        self._needed: dict[str, float] = {}
        """Uid of a pod with a hold -> since when it needs others' devices, until the first of them leaves."""
        self._unsettled: set[str] = set()
        """Uids of pods with a victim that was just found to be protected: others may be cheaper."""
        self._dropped: dict[str, Pod] = {}
        """Uid -> the pod as returned by the API server when its hold was removed."""

    # --- for the planner -----------------------------------------------------------------------------
    def completed(self, snapshot: ReclaimerSnapshot) -> ReclaimerSnapshot:
        """The snapshot with holds that it does not show yet, and without those that were just dropped."""
        now = self._clock.monotonic()
        self._written = {
            uid: one
            for uid, one in self._written.items()
            if _is_behind(snapshot.pods.get(uid), one.pod) and now - one.at < SEEN_WITHIN
        }
        self._dropped = {
            uid: pod for uid, pod in self._dropped.items() if _is_behind(snapshot.pods.get(uid), pod)
        }
        whole = snapshot.with_holds({uid: one.hold for uid, one in self._written.items()})
        return whole.without_holds(frozenset(self._dropped))

    @property
    def shows_dropped_hold(self) -> bool:
        """Whether the cache still shows a dropped hold: the state of its devices is not known yet."""
        return bool(self._dropped)

    @property
    def excluded(self) -> frozenset[str]:
        """Uids of pods that cannot be evicted, so far as is known."""
        return self._blockers.uids

    @property
    def protected(self) -> frozenset[str]:
        """Those of them whom only budgets protect that will be overridden."""
        return self._blockers.passing

    def ask_again(self, snapshot: ReclaimerSnapshot) -> None:
        """Ask the API server again about pods that could not be evicted."""
        self._blockers.ask_again(snapshot)

    def write(self, plan: Plan, *, needed: float) -> None:
        """Write a planned hold on its pod, if the pod has not changed since it was planned.

        Args:
            plan: the plan.
            needed: since when it is needed, monotonic.

        Raises:
            ApiError: it could not be written.
        """
        uid, hold, at = plan.pod.metadata.uid, plan.hold, self._clock.monotonic()
        if plan.is_steered and not self._taint_rules.keep_ahead(plan.pod, hold):
            return  # it is planned again
        self._needed.setdefault(uid, needed)
        if plan.at_once:
            victims = filter(None, map(self._context.seen, hold.victims))
            self._victim_eviction.prepare(victims, is_booked=hold.need == "booking")
        written = {names.HOLD: encode_hold(hold)} | _turn(plan.pod, hold.turn) | out_of_line(plan.pod)
        pod = self._patch(plan.pod, written, lifts_gate=plan.lifts_gate)
        if pod is None:
            return
        # The API server's answer knows nothing of claims: without them no rule would keep their devices.
        one = self._written[uid] = _Written(hold, replace(pod, claims=plan.pod.claims), at)
        self._begun.append(one)
        self._context.metrics.holds.labels("written").inc()
        log.info(
            "devices are kept for a pod",
            pod=plan.pod.key,
            hold=encode_hold(hold),
            lost_gpu_seconds=plan.lost / 1e6,
        )

    def tell(self, snapshot: ReclaimerSnapshot, in_vain: list[Plan]) -> None:
        """Write on the booked pods what keeps others from leaving for them: see ``Blockers.tell``."""
        self._blockers.tell(
            self.completed(snapshot), in_vain, unsettled=self._unsettled, is_whole=_are_all_present
        )

    def begin(self, snapshot: ReclaimerSnapshot) -> None:
        """Act on the holds that were written in this pass, planned on this snapshot."""
        begun, self._begun = self._begun, []
        snapshot = snapshot.with_holds({one.pod.metadata.uid: one.hold for one in begun})
        for one in begun:
            self._guarded(one.pod, partial(self._step, one.pod, snapshot, read=one.at))
        for one in begun:  # last, so that it delays no eviction
            if one.pod.metadata.uid not in self._dropped and (one.hold.victims or one.hold.need == "booking"):
                self._context.write_event(one.pod, event_reasons.GPUS_KEPT, hold_message(one.hold))

    def movable(self, snapshot: ReclaimerSnapshot) -> list[Pod]:
        """Pods with a hold none of whose victims has been evicted: the evictions may turn out unnecessary."""
        return [
            pod
            for uid, hold in snapshot.holds.items()
            if hold.victims
            and uid in snapshot.needs
            and uid not in self._written
            and not (pod := snapshot.pods[uid]).spec.node_name
            and is_live(pod)
            and pod.metadata.annotation(names.HOLD)
            and _are_all_present(hold, snapshot)
        ]

    def blocked(self, snapshot: ReclaimerSnapshot) -> list[Pod]:
        """Those of them with a victim that budgets protect: others may leave instead."""
        return [
            pod
            for pod in self.movable(snapshot)
            if pod.metadata.uid in snapshot.cover
            and self._blockers.of(snapshot.holds[pod.metadata.uid], snapshot)
        ]

    def settle(self, pod: Pod) -> bool:
        """Whether budgets were learnt of since the last call, so that another hold may be better."""
        was_unsettled = pod.metadata.uid in self._unsettled
        self._unsettled.discard(pod.metadata.uid)
        return was_unsettled

    def move(self, snapshot: ReclaimerSnapshot, plan: Plan) -> None:
        """Hold free devices, or those of other pods, instead of those for which pods would have to leave.

        In a single write, so that no other pod can take them in between and put work in danger again.

        Raises:
            ApiError: it could not be written.
        """
        self.write(plan, needed=self._clock.monotonic())
        self._needed.pop(plan.pod.metadata.uid, None)
        self.begin(snapshot)

    # --- every pass ----------------------------------------------------------------------------------
    def reconcile(self, snapshot: ReclaimerSnapshot) -> None:
        """Take one step for every hold, notice and bar; a failed step is tried again in the next pass."""
        self._timers = {uid: timer for uid, timer in self._timers.items() if uid in snapshot.pods}
        self._unsettled &= snapshot.holds.keys()
        self._victim_eviction.forget_all_but(frozenset(snapshot.pods))
        now = self._clock.monotonic()
        self._needed = {
            uid: at
            for uid, at in self._needed.items()
            if uid in snapshot.holds or (uid in snapshot.pods and now - at < SEEN_WITHIN)
        }
        for uid, pod in {**snapshot.annotated, **{uid: snapshot.pods[uid] for uid in self._timers}}.items():
            if uid in self._timers and pod.spec.node_name:
                del self._timers[uid]
                self._context.metrics.holds.labels("bound").inc()
            is_stale = uid in self._dropped or uid in self._written
            if pod.metadata.annotation(names.HOLD) and not is_stale and is_live(pod):
                self._guarded(pod, partial(self._step, pod, snapshot))
        for victim in self._victim_eviction.notices.stale(snapshot):
            self._guarded(victim, partial(self._spare, victim))
        for pod in self._bars.expired(snapshot):
            self._guarded(pod, partial(self._bars.lift, pod))
        self._taint_rules.sweep(snapshot)

    def start_timers_again(self) -> None:
        """Reset all timers: another process has led, or the API server was away, so they mean nothing."""
        self._timers.clear()
        self._taint_rules.start_again()

    def _guarded(self, pod: Pod, step: Callable[[], None]) -> None:
        try:
            step()
        except ApiError as error:
            self._context.failures.note("hold", pod.key, error)

    def _step(self, pod: Pod, snapshot: ReclaimerSnapshot, *, read: float | None = None) -> None:
        """Take one step for one hold; ``read``: when the API server returned the pod, if in this pass."""
        if pod.spec.node_name:
            self._resolve(pod)
            return
        hold = snapshot.holds.get(pod.metadata.uid)
        if hold is None:
            self._drop(pod, "the hold cannot be read")
            return
        status = hold_status(pod, hold, snapshot)
        if status.victims and (problem := self._context.turn_problem(pod, hold, snapshot)):
            status = HoldStatus(problem=problem)
        timer = self._timer(pod)
        if status.problem:
            self._drop_or_wait(pod, hold, status, timer)
            return
        timer.paused = None
        if not self._taint_rules.keep(pod, hold, snapshot) or not self._stayed_free(status, timer):
            return
        if status.victims:
            self._evict_victims(pod, hold, status.victims, timer, snapshot=snapshot, read=read)
        elif status.complete and is_queued(pod) and (gang := gang_of(pod)):
            self._start_gang(gang, snapshot)
        elif status.complete and could_bind(pod, snapshot) and not self._is_excused(pod, snapshot, timer):
            self._expect_bind(pod, hold, timer)
        else:
            timer.complete = None

    def _timer(self, pod: Pod) -> _Timer:
        uid, text = pod.metadata.uid, _text(pod)
        known = self._timers.get(uid)
        if known is None or known.text != text:
            known = self._timers[uid] = _Timer(text=text)
        return known

    def _stayed_free(self, status: HoldStatus, timer: _Timer) -> bool:
        """Whether a bind that was decided before the hold can no longer take a device that was free."""
        now = self._clock.monotonic()
        if timer.seen is None:
            timer.seen, timer.had_free = now, bool(status.free)
        return not timer.had_free or now - timer.seen >= BIND_DEADLINE

    # --- the steps -----------------------------------------------------------------------------------
    def _drop_or_wait(self, pod: Pod, hold: Hold, status: HoldStatus, timer: _Timer) -> None:
        """Drop the hold: at once, or when what should pass has not passed."""
        now = self._clock.monotonic()
        if timer.paused is None:
            timer.paused = now
        if not status.passing or now - timer.paused >= PAUSED_FOR:
            bar = hold.node if status.crowded else None
            self._drop(pod, status.problem or "", bar=bar)

    def _evict_victims(
        self,
        pod: Pod,
        hold: Hold,
        victims: tuple[Pod, ...],
        timer: _Timer,
        *,
        snapshot: ReclaimerSnapshot,
        read: float | None,
    ) -> None:
        uid = pod.metadata.uid
        blockers, block = self._blockers.of(hold, snapshot), None
        if blockers:
            # Budgets are never overridden for a share.
            lasting = (one for one in blockers.values() if one.budgets is None or hold.need != "booking")
            if other := next(lasting, None):
                self._drop(pod, f"a pod that would have to leave cannot be evicted now: {other.why}")
                return
            until = self._blockers.until(pod)
            is_unsettled = uid in self._unsettled and _are_all_present(hold, snapshot)
            if until is None or is_unsettled:
                return  # the wait is written on the pod at the end of this pass; then others are looked for
            block = Block(until, {uid: one.why for uid, one in blockers.items()})
        case = Case(pod, hold, timer.notices, timer.checked, block, read)
        try:
            sent = self._victim_eviction.reconcile(case, victims)
        except NotNowError as error:
            self._blockers.add(error.victim, error.blocker, error.budgets, snapshot)
            self._unsettled.add(uid)
            is_final = error.blocker.budgets is None or self._blockers.limit is None
            if is_final or hold.need != "booking":
                self._drop(pod, str(error))
            return
        if sent is None or (needed := self._needed.pop(uid, None)) is None:
            return
        if not timer.had_free and not any(one.ahead for one in timer.notices.values()):
            self._context.metrics.decisions.observe(sent - needed)

    def _expect_bind(self, pod: Pod, hold: Hold, timer: _Timer) -> None:
        now = self._clock.monotonic()
        if timer.complete is None:
            timer.complete = now
        if now - timer.complete < BOUND_WITHIN:
            return
        try:
            bar = {names.BARRED: self._bars.with_node(pod, hold.node)}
            done = self._patch(pod, {names.HOLD: None} | bar | _turn(pod, 0))
        except ApiError:
            # Without the API server it could not be bound: its time starts again when there is one.
            timer.complete = None
            raise
        if done is not None:
            self._dropped[pod.metadata.uid] = done
            self._context.metrics.holds.labels("barred").inc()
            log.warning("a pod was not bound to its kept devices in time", pod=pod.key, node=hold.node)
            self._context.write_event(pod, event_reasons.NODE_BARRED, _barred(pod, hold))

    def _start_gang(self, gang: Gang, snapshot: ReclaimerSnapshot) -> None:
        """Remove the gates of a gang's pods once the devices of all are free."""
        if not self._recent_requests.is_due(gang):
            return
        for pod in to_start(gang, snapshot, self._has_waited):
            self._patch(pod, {}, lifts_gate=True)
            log.info("a pod of a gang may start", pod=pod.key, uid=pod.metadata.uid)

    def _has_waited(self, uid: str) -> bool:
        """Whether no bind that was decided before a pod's hold can take its devices any more."""
        timer, now = self._timers.get(uid), self._clock.monotonic()
        return timer is not None and timer.seen is not None and now - timer.seen >= BIND_DEADLINE

    def release(self, pod: Pod, why: str) -> None:
        """Drop a hold for a reason that lies in others.

        Raises:
            ApiError: it could not be written.
        """
        self._drop(pod, why)

    def _is_excused(self, pod: Pod, snapshot: ReclaimerSnapshot, timer: _Timer) -> bool:
        """Whether the extender cannot bind the pod now for a reason that lies in no node.

        That counts for ``BEHIND_AT_MOST`` seconds at a time.
        """
        now = self._clock.monotonic()
        if not is_behind(pod, snapshot):
            timer.behind = None
        elif timer.behind is None:
            timer.behind = now
        return timer.behind is not None and now - timer.behind < BEHIND_AT_MOST

    def _resolve(self, pod: Pod) -> None:
        """The pod is bound, by others: its hold and bars are over. Our own Binding empties them."""
        if not self._recent_requests.is_due(("resolve", pod.metadata.uid)):
            return
        meta = pod.metadata
        body = {"metadata": {"uid": meta.uid, "annotations": dict.fromkeys(names.WAITING_STATE)}}
        self._kube.patch(PODS, meta.name, body, namespace=meta.namespace)

    def _drop(self, pod: Pod, why: str, *, bar: str | None = None) -> None:
        """Drop the pod's hold; its victims that have not left are spared in the next pass.

        ``bar``: a node on which no other pod is to leave for it for a while.
        """
        barred = {names.BARRED: self._bars.with_node(pod, bar)} if bar else {}
        done = self._patch(pod, {names.HOLD: None, **barred} | _turn(pod, 0))
        if done is None:
            return
        self._dropped[pod.metadata.uid] = done
        self._written.pop(pod.metadata.uid, None)
        self._timers.pop(pod.metadata.uid, None)
        self._needed.pop(pod.metadata.uid, None)
        self._context.metrics.holds.labels("dropped").inc()
        log.info("devices are no longer kept for a pod", pod=pod.key, reason=why)
        there = f" Nothing is kept for it on node {bar} for a while." if bar else ""
        self._context.write_event(
            pod, event_reasons.HOLD_DROPPED, f"GPUs are not kept for this pod any more: {why}.{there}"
        )

    def _spare(self, victim: Pod) -> None:
        self._context.evictor.withdraw(victim.metadata.uid)
        blocker = self._blockers.why(victim.metadata.uid)
        self._victim_eviction.notices.take_back(victim, blocker=blocker)

    def _patch(self, pod: Pod, annotations: dict[str, str | None], *, lifts_gate: bool = False) -> Pod | None:
        """Write on the pod if it is unchanged since the decision; returns its new state, else None.

        A bind in flight carries the resourceVersion too: one of the two loses and decides again.
        """
        meta = pod.metadata
        guards = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        body: dict[str, Any] = {"metadata": {**guards, "annotations": annotations}}
        if lifts_gate and is_queued(pod):
            body["spec"] = {"schedulingGates": [{"name": name} for name in other_gates(pod)] or None}
        try:
            return self._kube.patch(PODS, meta.name, body, namespace=meta.namespace)
        except (Conflict, NotFound):
            log.info("the pod has changed, deciding again", pod=pod.key)
            return None


def _text(pod: Pod) -> str:
    return pod.metadata.annotation(names.HOLD) or ""


def _turn(pod: Pod, seconds: int) -> dict[str, str | None]:
    """What is written for a turn of so many seconds; nothing where the pod has none and is to have none."""
    if seconds:
        return {names.TURN: str(seconds)}
    return {names.TURN: None} if pod.metadata.annotation(names.TURN) else {}


def _is_behind(seen: Pod | None, answered: Pod) -> bool:
    """Whether our cache is behind the API server's answer."""
    return seen is not None and is_older(seen.metadata, answered.metadata)


def _are_all_present(hold: Hold, snapshot: ReclaimerSnapshot) -> bool:
    """Whether all victims of a hold exist and none is terminating."""
    return all((victim := snapshot.pods.get(uid)) is not None and is_live(victim) for uid in hold.victims)


def _barred(pod: Pod, hold: Hold) -> str:
    conditions = pod.status.conditions or ()
    message = next((c.message for c in conditions if c.type == "PodScheduled" and c.message), None)
    reported = f" The scheduler said: {message}" if message else " The scheduler has said nothing."
    return (
        f"The GPUs kept for this pod on node {hold.node} were free for {BOUND_WITHIN:.0f} seconds,"
        f" but it was not bound to them. Nothing is kept for it there for a while.{reported}"
    )
