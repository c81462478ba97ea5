"""Evicts pods and brings bare ones back: carries out ``comeback``'s table on the API server.

Implements ``evictor.Evictor`` for ``holds`` and ``ending``. Only the leader calls it, in one thread.
Correctness never depends on this process's memory, which only saves calls.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from booking.controller.reclaimer.evictions.api_calls import DEFAULT_GRACE, Calls, read
from booking.controller.reclaimer.evictions.comeback import (
    CONDITIONS,
    Comeback,
    has_our_finalizer,
    how,
    is_owned,
    next_step,
)
from booking.controller.reclaimer.evictions.comeback_cache import SELECTED, ComebackCache
from booking.controller.reclaimer.evictions.comebacks import EVICTION_STEPS, Comebacks, EventWriter
from booking.controller.reclaimer.evictions.dry_runs import DryRun, DryRuns
from booking.controller.reclaimer.evictions.failed_pod_cache import FailedPodCache
from booking.controller.reclaimer.evictions.refusals import is_of_budgets, may_be_of_budgets
from booking.controller.reclaimer.evictions.rejected_pods import RejectedPods
from booking.controller.reclaimer.evictor import (
    Back,
    EvictionCause,
    NoComebackError,
    ProtectedError,
    Reason,
    TooLateError,
    always,
    nothing,
)
from booking.controller.reclaimer.executor import Executor, in_turn
from cluster import event_reasons, names
from cluster.cache import Informers
from cluster.decide.eviction.fates import is_brought_back_by_us
from cluster.kube.backoff import Random, unpredictable
from cluster.kube.errors import ApiError, Conflict, NotFound, StatusError
from cluster.kube.interface import Kube
from cluster.kube.reflector import Reflector
from cluster.kube.resources import FAILED_PODS, POD_TEMPLATES, PODS, PodTemplate, WholePod
from cluster.objects.claims import PodClaims
from cluster.objects.disruption_budgets import DisruptionBudget
from cluster.objects.jobs import Job
from cluster.objects.pods import Pod, is_terminating
from cluster.process.clock import Clock

Json = dict[str, Any]

log = structlog.get_logger(__name__)

ATTEMPTS: Final = 3
"""Times that an eviction is restarted when another client writes to the pod at the same moment."""

FULL_QUOTA: Final = "exceeded quota"
"""How a ResourceQuota refuses (Kubernetes' plugin resourcequota, controller.go)."""


class PodEvictor:
    """Evicts pods, and brings bare ones back."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        events: EventWriter,
        *,
        scheduler: str = names.SCHEDULER_NAME,
        executor: Executor = in_turn,
        random: Random | None = None,
        jobs: Callable[[], Mapping[str, Job]] = dict,
        claims: Callable[[Pod], PodClaims | None] = lambda _: None,
    ) -> None:
        """``follow`` must be called before the first ``reconcile``.

        Args:
            kube: the API server.
            clock: measures pauses.
            events: writes Events.
            scheduler: ``schedulerName`` of the pods that come back where a kubelet has rejected them.
            executor: runs requests to the API server concurrently.
            random: spreads attempts over time.
            jobs: returns ``namespace/name`` -> Job, as known now.
            claims: what a pod asks for by claims, as known now.
        """
        self._kube = kube
        self._jobs = jobs
        self._scheduler = scheduler
        self._clock = clock
        self._calls = Calls(kube, clock, claims)
        self._events = events
        self.seen: Final = ComebackCache()
        """The cache of two reflectors; ``seen.on_change`` adds a callback for changes."""
        self.failed: Final = FailedPodCache(clock, self.seen.notify)
        """The cache of a third reflector: pods that kubelets have rejected."""
        random = random or unpredictable()
        self._returning = Comebacks(self._calls, clock, events, self.seen, random=random)
        self._rejected_pods = RejectedPods(self.failed, clock, events, self.evict, random=random)
        self._dry_runs = DryRuns(self._calls, clock, executor, self._is_left_to_controller)

    def follow(self, following: Informers) -> None:
        """Add the reflectors that keep ``seen`` true."""
        pods = Reflector(self._kube, PODS, self.seen.pods, self._clock, label_selector=SELECTED)
        templates = Reflector(
            self._kube, POD_TEMPLATES, self.seen.templates, self._clock, label_selector=SELECTED
        )
        selected = f"status.phase=Failed,spec.schedulerName={self._scheduler}"
        failed = Reflector(self._kube, FAILED_PODS, self.failed, self._clock, field_selector=selected)
        following.add("comebacks", pods)
        following.add("templates", templates)
        following.add("failed pods", failed)

    # --- eviction --------------------------------------------------------------------------------------
    def prepare(self, pod: Pod, *, back: Back, reason: Reason = "evicted") -> None:
        """Find out in the background what its eviction will need; see ``Evictor``."""
        uid = pod.metadata.uid
        is_left = uid in self._returning.taken or is_terminating(pod) or back == "never"
        if is_left or self._is_left_to_controller(pod) or self.seen.template(uid) is not None:
            return
        self._dry_runs.begin(pod, back=back, reason=reason)

    def _is_left_to_controller(self, pod: Pod) -> bool:
        """Whether its controller replaces the pod, or may: then we must not."""
        return is_owned(pod) and not is_brought_back_by_us(pod, self._jobs())

    def evict(
        self,
        pod: Pod,
        why: EvictionCause,
        *,
        is_valid: Callable[[], bool] = always,
        about_to_check: Callable[[], None] = nothing,
    ) -> None:
        """Do every step that is due for a pod that must go; see ``Evictor``."""
        if pod.metadata.uid in self._returning.taken or is_terminating(pod):
            return
        eviction = _Eviction(why, is_valid, about_to_check)
        for left in reversed(range(ATTEMPTS)):
            try:
                if self._begin(pod, eviction):
                    return
            except Conflict as error:
                if not left:
                    raise
                log.info("the pod has changed, starting again", pod=pod.key, error=str(error))
            except NotFound:
                now = self._calls.named(pod.metadata.name, pod.metadata.namespace)
                if now is not None and now.metadata.uid == pod.metadata.uid:
                    raise  # a webhook may refuse with any code
                return

    def _begin(self, pod: Pod, eviction: "_Eviction") -> bool:
        """Begin the eviction; False when it must be restarted."""
        why = eviction.why
        is_left = self._is_left_to_controller(pod)
        if is_left and _may_be_evicted(why) and not self._is_prepared(pod):
            self._evict(self._notified(pod, eviction), eviction, versioned=False)
            return True
        dry_run = self._dry_runs.begun(pod, back=why.back, reason=why.reason)
        whole = dry_run.whole if dry_run else self._calls.whole(pod.metadata)
        if whole is None:
            return True
        victim = read(whole)
        if is_terminating(victim):
            self.seen.wrote_pod(victim)
            return True
        is_left = self._is_left_to_controller(victim)
        if self._is_prepared(victim) if is_left else self._is_prepared_otherwise(victim, why):
            self._undo(victim)
            return False
        if is_left or why.back == "never":
            self._take(self._notified(victim, eviction), whole, eviction)
        else:
            self._evict_for_comeback(victim, whole, dry_run, eviction)
        return True

    def _evict_for_comeback(
        self, victim: Pod, whole: WholePod, dry_run: DryRun | None, eviction: "_Eviction"
    ) -> None:
        """Make it ready to come back, and take it."""
        why, template = eviction.why, self.seen.template(victim.metadata.uid)
        while (step := next_step(Comeback(template=template, victim=victim, wanted=True))) in EVICTION_STEPS:
            if step == "store":
                tried = dry_run or self._dry_runs.ask(whole, back=why.back, reason=why.reason)
                template = self._store(tried, why)
            elif step == "add finalizer":
                eviction.about_to_check()
                victim = self._calls.add_finalizer(victim, back=why.back, notice=why.notice)
                self.seen.wrote_pod(victim)
            else:
                self._take(victim, whole, eviction)
                return

    def _notified(self, pod: Pod, eviction: "_Eviction") -> Pod:
        """The pod with its notice, where nothing else is to be written on it."""
        notice = eviction.why.notice
        if notice is None or pod.metadata.annotation(names.NOTICE) == notice:
            return pod
        eviction.about_to_check()
        return self._calls.notify(pod, notice)

    def _is_prepared(self, victim: Pod) -> bool:
        """Whether it was prepared for a comeback, at a time when its Job would have failed with it."""
        return has_our_finalizer(victim) or self.seen.template(victim.metadata.uid) is not None

    def _is_prepared_otherwise(self, victim: Pod, why: EvictionCause) -> bool:
        """Whether it was prepared for another kind of comeback, or another reason, than it needs now."""
        template = self.seen.template(victim.metadata.uid)
        if template is None:
            return has_our_finalizer(victim) and how(victim.metadata) != why.back
        prepared = how(template.metadata), template.metadata.annotation(names.COMEBACK_REASON)
        return prepared != (why.back, why.reason)

    def _undo(self, victim: Pod) -> None:
        """Undo the preparations, including those that our watch has not shown yet."""
        template = self._calls.stored(victim.metadata.uid, victim.metadata.namespace)
        if template is not None:
            self.seen.put_template(template)
        self.seen.wrote_pod(victim)
        self._returning.withdraw(victim.metadata.uid)

    def _store(self, tried: DryRun, why: EvictionCause) -> PodTemplate:
        whole, error = tried.whole, tried.refused
        if error is not None and why.reason == "refused" and FULL_QUOTA not in error.message:
            raise error  # it holds nothing: it stays where its owner sees it until it can come back
        if error is not None and tried.is_unanswered:
            self._dry_runs.count_unanswered(whole, error)
        elif error is not None:
            self._dry_run_is_refused(whole, error, why)
        self._dry_runs.answered(whole.metadata.uid)
        controller = whole.metadata.controller
        after = f" The {controller.kind} {controller.name} does not count it any more." if controller else ""
        template = self._calls.store(
            whole.metadata, tried.body, reason=why.reason, message=f"{why.message}{after}", back=why.back
        )
        self.seen.put_template(template)
        return template

    def _dry_run_is_refused(self, whole: WholePod, error: StatusError, why: EvictionCause) -> None:
        """Spare the pod once where others can go instead; else it is evicted nevertheless.

        A pod cannot keep a GPU because its replacement is refused. A full quota has room once the pod has
        left; anything else is reported now, and retried indefinitely.
        """
        log.warning("the dry run of a comeback was refused", pod=whole.metadata.name, error=str(error))
        if FULL_QUOTA in error.message:
            return
        victim = read(whole)
        if why.others_first and self._dry_runs.is_to_be_spared(victim.metadata.uid):
            raise NoComebackError(f"{victim.key} could not come back: {error.message}") from error
        message = f"This pod must leave, and as it is now it could not come back: {error.message}"
        self._events.warning(victim, event_reasons.COMEBACK_REFUSED, message)

    def _take(self, victim: Pod, whole: WholePod, eviction: "_Eviction") -> None:
        why = eviction.why
        if _may_be_evicted(why):
            self._evict(victim, eviction, versioned=not self._is_left_to_controller(victim))
            return
        _require_valid(victim, eviction.is_valid)
        conditions = list(whole.status.get("conditions") or ())
        marked = self._mark_disruption(victim, conditions, why, status=True)
        try:
            self._calls.end(marked, why.grace_seconds)
        except Conflict:
            self._clear_unless_ours(victim, why)
            raise
        self._is_taken(victim, why)

    def _mark_disruption(
        self, victim: Pod, conditions: list[Json], why: EvictionCause, *, status: bool
    ) -> Pod:
        return self._calls.mark_disruption(
            victim, conditions, status=status, reason=why.reason, message=why.message
        )

    def _clear_unless_ours(self, victim: Pod, why: EvictionCause) -> None:
        """Another client wrote first: if the user has deleted the pod, our condition must not claim it."""
        now = self._calls.whole(victim.metadata)
        if now is not None and is_terminating(read(now)):
            conditions = list(now.status.get("conditions") or ())
            self._mark_disruption(read(now), conditions, why, status=False)

    def _evict(self, victim: Pod, eviction: "_Eviction", *, versioned: bool) -> None:
        _require_valid(victim, eviction.is_valid)
        try:
            self._calls.evict(victim, eviction.why.grace_seconds, versioned=versioned)
        except StatusError as error:
            self._require_no_budget(victim, error)
            raise
        self._is_taken(victim, eviction.why)

    def ask(self, pod: Pod) -> None:
        """Ask whether the pod may be evicted; see ``Evictor``."""
        try:
            self._calls.evict(pod, DEFAULT_GRACE, versioned=False, dry_run=True)
        except (Conflict, NotFound):
            return  # it is another one by now, or gone
        except StatusError as error:
            self._require_no_budget(pod, error)
            raise

    def _require_no_budget(self, pod: Pod, error: StatusError) -> None:
        """Raise ``ProtectedError`` where a budget is what has refused an eviction."""
        if not may_be_of_budgets(error):
            return
        budgets: tuple[DisruptionBudget, ...] = ()
        try:
            budgets = self._calls.budgets(pod)
        except ApiError as unknown:
            log.warning(
                "disruption budgets cannot be read", namespace=pod.metadata.namespace, error=str(unknown)
            )
        if is_of_budgets(error, budgets):
            message = f"{pod.key} cannot be evicted now: {error.message}"
            raise ProtectedError(message, budgets) from error

    def _is_taken(self, victim: Pod, why: EvictionCause) -> None:
        self._returning.taken.add(victim.metadata.uid)
        if why.reason != "refused":  # that was reported when the pod was first seen
            reason = why.event_reason or CONDITIONS[why.reason]
            self._events.normal(victim, reason, why.message)
        log.info("a pod is terminating", pod=victim.key, uid=victim.metadata.uid, reason=why.reason)

    # --- comeback --------------------------------------------------------------------------------------
    def withdraw(self, uid: str) -> None:
        """The pod need not go after all; see ``Evictor``."""
        self._returning.withdraw(uid)

    def clear_disruption(self, pod: Pod) -> None:
        """Remove our ``DisruptionTarget`` from a pod that is not being evicted; see ``Evictor``."""
        if pod.metadata.uid not in self._returning.taken:
            self._returning.clear_disruption(pod)

    def reconcile(self, wanted: frozenset[str]) -> None:
        """Advance every comeback; see ``Evictor``.

        A comeback that is refused is tried again after a pause, and does not block the others.

        Raises:
            Unreachable: the API server cannot be asked.
        """
        self._dry_runs.forget_all_but(wanted)
        self._returning.reconcile(wanted | self._rejected_pods.uids)
        self._rejected_pods.reconcile()


@dataclass(frozen=True, slots=True)
class _Eviction:
    """The arguments of one eviction: see ``Evictor.evict``."""

    why: EvictionCause
    is_valid: Callable[[], bool]
    about_to_check: Callable[[], None]


def _may_be_evicted(why: EvictionCause) -> bool:
    """Whether to use the Eviction API, which respects budgets."""
    return why.reason in {"evicted", "share", "overuse"} and not why.overrides_budget


def _require_valid(victim: Pod, is_valid: Callable[[], bool]) -> None:
    """The last check: a process that was paused must not evict a pod that may be booked by now (law L2)."""
    if not is_valid():
        raise TooLateError(f"The decision about {victim.key} is too old; it is made again.")
