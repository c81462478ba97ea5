"""The extender's composition root: ``python -m extender``. Real adapters are chosen only here."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from prometheus_client import CollectorRegistry

from cluster import names
from cluster.cache import CLAIM_KINDS, UNSUCCESSFUL, ClaimOptions, Informers
from cluster.decide.ledger import SOURCES
from cluster.kube.client import KubeClient
from cluster.kube.clock_skew import clock_skew_reason
from cluster.kube.connection import BadConnectionError
from cluster.kube.events import EventRecorder
from cluster.kube.interface import Kube
from cluster.kube.official_client import configured
from cluster.kube.resources import NAMESPACES, TAINT_RULES, Resource
from cluster.kube.transport import Timeouts
from cluster.process import logs
from cluster.process.clock import Clock, SystemClock
from cluster.process.garbage import freeze_objects
from cluster.process.lifecycle import Process
from cluster.process.loops import Body, Loops
from cluster.process.metrics import measured, new_registry
from cluster.process.probes import Check, Probes, ServeError, serve
from cluster.process.settings import SettingsError, load
from extender import gauges
from extender.binding.assumed_binds import EVERY as ASSUMED_BINDS_EVERY
from extender.binding.assumed_binds import AssumedBinds
from extender.binding.bind import Bind
from extender.binding.binding_post import CONNECTING
from extender.binding.keyed_lock import KeyedLock
from extender.clock_check import EVERY as REMEASURES_EVERY
from extender.clock_check import ClockCheck
from extender.http_server.decision_log import DecisionLog, with_decision_log
from extender.http_server.listeners import serve_by_tls, serve_plainly
from extender.http_server.server import Verbs, create_app, with_probes
from extender.kubelet_rejections import EVERY as REJECTIONS_EVERY
from extender.kubelet_rejections import KubeletRejections
from extender.leader_election import leadership
from extender.leadership import own_prefix
from extender.metrics import Metrics
from extender.pending.pending_reasons import EVERY as EXPLAINS_EVERY
from extender.pending.pending_reasons import PendingReasons
from extender.pending.requeue import EVERY as REQUEUE_EVERY
from extender.pending.requeue import Requeue
from extender.settings import Settings
from extender.state.cluster_state import ClusterState
from extender.verbs.contenders import Contenders
from extender.verbs.filter import Filter
from extender.verbs.preempt import Preempt, Terms
from extender.verbs.prioritize import Prioritize
from extender.verdict_lease import EVERY as RENEWS_VERDICTS_EVERY
from extender.verdict_lease import VerdictLease

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

SWITCH_SECONDS = 0.0002
"""Seconds that a verb waits for a working thread, usually one that reads a list, at each switch between
threads. There are about four switches per request; Python's own interval is 5 ms."""
ANSWERS_A_BIND = Timeouts(connect=CONNECTING, read=3.0)
"""kube-scheduler gives a bind 5 s."""


FOLLOWED: Final[tuple[Resource[Any], ...]] = (NAMESPACES,)
"""Kinds that it caches besides those that every part does; the chart's role allows to list and watch them."""


FOLLOWED_FOR_CLAIMS: Final[tuple[Resource[Any], ...]] = (*CLAIM_KINDS, TAINT_RULES)
"""What it caches besides where claims can be booked."""


def main() -> int:
    """Run until stopped; return the exit code."""
    try:
        settings = load(Settings, os.environ)
        decision_log = DecisionLog(SystemClock())
        logs.configure(level=settings.log_level, style=settings.log_style, keep=decision_log.keep)
        sys.setswitchinterval(SWITCH_SECONDS)
        return build(settings, SystemClock(), decision_log=decision_log).run()
    except (SettingsError, BadConnectionError, ServeError) as error:
        sys.stderr.write(f"{error}\n")
        return 2


def _cluster_state(settings: Settings, clock: Clock) -> ClusterState:
    return ClusterState(
        clock,
        settings.scheduler_name,
        home=settings.namespace,
        sources=SOURCES,
        placement=settings.placement,
        claims=ClaimOptions(settings.dra_driver) if settings.book_claims else None,
        bind_window=settings.bind_window,
    )


def _verbs(settings: Settings, state: ClusterState, clock: Clock, bind: Bind) -> Verbs:
    prioritize = Prioritize(state, clock, settings.placement)
    # Behind another extender than ours, a node that it takes may be the second best.
    is_alone = settings.mode == "dedicated"
    placement, weight = settings.placement, settings.score_weight
    narrowed = Contenders(state, prioritize.scores, placement=placement, weight=weight) if is_alone else None
    return Verbs(
        filter=Filter(state, narrowed).answer_logged,
        prioritize=prioritize.answer_logged,
        preempt=Preempt(state, clock, terms(settings)),
        bind=bind,
        refuse_bind=bind.refuse,
    )


def build(
    settings: Settings,
    clock: Clock,
    registry: CollectorRegistry | None = None,
    decision_log: DecisionLog | None = None,
) -> Process:
    """Build the whole process: it listens already, but its threads are not started.

    Args:
        settings: from the environment.
        clock: the time.
        registry: for its metrics; by default a new one.
        decision_log: records the last decisions; by default a new one.

    Raises:
        BadConnectionError: the API server's address or credentials are missing.
        ServeError: a port cannot be listened on.
    """
    process = Process(names.EXTENDER, clock)
    kube, binding_kube = _api_server(settings, process, clock)
    registry = registry or new_registry()
    events = EventRecorder(kube, clock, component=names.EXTENDER, registry=registry)
    state = _cluster_state(settings, clock)
    following = follow(kube, state, clock, namespace=settings.namespace, kubelets=settings.kubelets)
    wrong_clock = clock_skew_reason(kube.skew)
    doubts: list[Check] = [wrong_clock]
    leading = leadership(settings, binding_kube, state, clock=clock, unfit=doubts)
    unready_reason = first_unready_reason(following.unready_reason, *doubts, leading.unready_reason)
    keyed_lock, metrics = KeyedLock(clock), Metrics(registry)
    loops = Loops(clock, lambda name: metrics.loops.labels(loop=name).inc())
    bind = Bind(binding_kube, state, clock, keyed_lock, leads=leading.leads)
    verbs = _verbs(settings, state, clock, bind)
    kubelet_rejections = KubeletRejections(state, clock, events.warning, metrics, leads=leading.leads)

    gauges.show(
        registry, state, gauges.Sources(following.staleness, following.lists, kubelet_rejections.rejecting)
    )
    limits = {"limit": settings.max_body_bytes, "binds_at_once": binds_at_once(settings)}
    served = create_app(verbs, unready_reason, clock, metrics, priority=state.priority.taken, **limits)
    app = with_decision_log(served, decision_log or DecisionLog(clock))

    holder, leads = f"{own_prefix()}{uuid4()}", leading.leads
    lease_of = partial(VerdictLease, namespace=settings.namespace, holder=holder, leads=leads)
    verdict_lease = lease_of(kube, state, clock, unready_reason=unready_reason)
    process.closing("verdicts", verdict_lease.release)
    pending_reasons = PendingReasons(state, clock, events.warning, unready_reason)
    remeasure = ClockCheck(kube, wrong_clock, clock, namespace=settings.namespace)
    lasting = {**following.threads, **leading.threads, "events": events.run}
    rounds = {
        "assumed-binds": (ASSUMED_BINDS_EVERY, AssumedBinds(kube, state, clock, keyed_lock).reconcile),
        "pending-reasons": (EXPLAINS_EVERY, pending_reasons.reconcile),
        "kubelet-rejections": (REJECTIONS_EVERY, kubelet_rejections.reconcile),
        "verdicts": (RENEWS_VERDICTS_EVERY, verdict_lease.reconcile),
        "clock-check": (REMEASURES_EVERY, remeasure.reconcile),
        "requeue": (REQUEUE_EVERY, Requeue(kube, state, clock, namespace=settings.namespace).reconcile),
    }
    go_on(process, loops, lasting, rounds)
    doubts += _listen(app, process, settings, clock, ready=Ready(registry, loops, unready_reason))
    return process


def follow(
    kube: Kube,
    state: ClusterState,
    clock: Clock,
    *,
    namespace: str,
    kubelets: bool = False,
) -> Informers:
    """The informers of the state, with Namespaces; events wait while kube-scheduler is answered."""
    return Informers(
        kube,
        state,
        clock,
        namespace=namespace,
        kinds=(*FOLLOWED, *(FOLLOWED_FOR_CLAIMS if state.follows_claims else ())),
        pods=UNSUCCESSFUL,
        kubelets=kubelets,
        give_way=state.priority.give,
        once_synced=freeze_objects,
    )


def first_unready_reason(*checks: Check) -> Check:
    """A check that returns the first reason of these checks (law L6); None if there is none."""
    return lambda: next((problem for check in checks if (problem := check())), None)


def go_on(
    process: Process,
    loops: Loops,
    lasting: Mapping[str, Body],
    rounds: Mapping[str, tuple[float, Callable[[], None]]],
) -> None:
    """Add a thread for each endless loop, and for each task that repeats every so many seconds."""
    for name, body in lasting.items():
        process.thread(name, loops.lasting(name, body))
    for name, (every, work) in rounds.items():
        process.thread(name, loops.rounds(name, every, work))


@dataclass(frozen=True, slots=True)
class Ready:
    """The sources of the probes' answers."""

    registry: CollectorRegistry
    loops: Loops
    unready_reason: Check


def _listen(
    app: "WSGIApplication", process: Process, settings: Settings, clock: Clock, *, ready: Ready
) -> list[Check]:
    """Serve verbs and probes until the process ends; return the checks that report why we cannot serve."""
    checks = {"cluster": ready.unready_reason, "loops": ready.loops.unready_reason}
    served = serve_by_tls(app, settings, process, clock) if settings.mode == "existing" else None
    if served:
        checks["certificate"] = served.problem
        go_on(process, ready.loops, {"certificate": served.follow}, {})
    measured(
        ready.registry,
        "extender_certificate_expiration_timestamp_seconds",
        "Unix time, in seconds, at which the certificate of mode `existing` ends; NaN in the other mode.",
        lambda: served.certificate_ends() if served else None,
    )
    probes = Probes(ready.registry, ready=checks)
    if settings.mode == "dedicated":
        serve_plainly(with_probes(app, probes), settings, process, clock)
    process.closing("probes", serve(probes, settings.probe_host, settings.probe_port).close)
    return [served.problem] if served else []


def _api_server(settings: Settings, process: Process, clock: Clock) -> tuple[KubeClient, KubeClient]:
    """Two clients: one for most requests, one with short timeouts for binds and leader election."""
    kube = KubeClient(configured(settings, clock, os.environ), clock, user_agent=names.EXTENDER)
    binding = KubeClient(
        configured(settings, clock, os.environ),
        clock,
        user_agent=names.EXTENDER,
        timeouts=ANSWERS_A_BIND,
        connections=settings.threads,
    )
    process.closing("connections", kube.close)
    process.closing("binding connections", binding.close)
    return kube, binding


def binds_at_once(settings: Settings) -> int:
    """How many of the threads binds may take; the rest is left for the other verbs."""
    return max(1, settings.threads * 3 // 4)


def terms(settings: Settings) -> Terms:
    """The settings that decide which pods may be evicted, and at which cost."""
    return Terms(home=settings.namespace, maia=settings.maia, restart_seconds=settings.restart_cost_seconds)


if __name__ == "__main__":
    sys.exit(main())
