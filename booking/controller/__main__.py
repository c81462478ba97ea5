"""The controller's composition root: ``python -m booking.controller``. Adapters are chosen here only.

Every replica answers the webhook; the one that holds the Lease reclaims.
"""

import os
import secrets
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from prometheus_client import CollectorRegistry

from booking.controller.admission.certificate_authority import service_names
from booking.controller.admission.claim_tolerations import mark_claim
from booking.controller.admission.cluster_view import CachedClusterView
from booking.controller.admission.endpoint import Endpoint
from booking.controller.admission.metrics import Metrics
from booking.controller.admission.owner import Creators
from booking.controller.admission.review import Review
from booking.controller.admission.sharing_dialects.translation import Sharing
from booking.controller.admission.visible_devices import hide_devices
from booking.controller.admission.webhook import Answering, Webhook
from booking.controller.admission.webhook_installer import WebhookInstaller
from booking.controller.counted_nodes.writer import CountedNodes
from booking.controller.hubs.hub_api import HttpHubApi
from booking.controller.hubs.returned_notebooks import SELECTED, ReturnedNotebooks
from booking.controller.hubs.route_checks import RouteChecks
from booking.controller.maia.pod_terminator import PodTerminator
from booking.controller.reclaimer.context import WriteEvent
from booking.controller.reclaimer.evictions.pod_evictor import PodEvictor
from booking.controller.reclaimer.executor import Executor, ThreadExecutor
from booking.controller.reclaimer.gauges import Seen, show
from booking.controller.reclaimer.metrics import ReclaimerMetrics
from booking.controller.reclaimer.reclaimer import Guards, Reclaimer
from booking.controller.reclaimer.reservations.manifest import ReservationTerms
from booking.controller.settings import ControllerSettings
from booking.eviction.settings import EvictionSettings
from booking.eviction.victims import LEAST_LOST_WORK
from booking.policy.fair_shares import FairShares
from booking.policy.policy import Policy
from booking.policy_file import PolicyFile
from cluster import event_reasons, names
from cluster.cache import (
    CLAIM_KINDS,
    SCHEDULING,
    ClusterCache,
    Informers,
    read_bookings,
    with_expressions,
)
from cluster.decide.ledger import SOURCES
from cluster.decide.queueing import by_priority_and_age
from cluster.kube.backoff import Random, unpredictable
from cluster.kube.client import KubeClient
from cluster.kube.clock_skew import clock_skew_reason
from cluster.kube.connection import BadConnectionError
from cluster.kube.events import EventRecorder
from cluster.kube.interface import Kube, Selection
from cluster.kube.leader_election import LeaderElector
from cluster.kube.official_client import configured
from cluster.kube.reflector import Reflector
from cluster.kube.resources import (
    CLAIM_TEMPLATES,
    JOBS,
    LIMIT_RANGES,
    NAMESPACES,
    NOTEBOOKS,
    TAINT_RULES,
    Resource,
)
from cluster.objects.limit_ranges import gpu_defaults
from cluster.objects.pods import Pod
from cluster.process import logs
from cluster.process.certificates import CertificateExpiry
from cluster.process.clock import Clock, SystemClock, thread_seconds
from cluster.process.garbage import freeze_objects
from cluster.process.https import TlsServer
from cluster.process.lifecycle import Process
from cluster.process.metrics import measured, measured_each, new_registry
from cluster.process.probes import Check, Probes, ServeError, serve
from cluster.process.settings import SettingsError, load

FOLLOWED: Final[tuple[Resource[Any], ...]] = (NAMESPACES, JOBS, *SCHEDULING)
"""Kinds that it caches besides those that every part does; the chart's role allows to list and watch them."""


FOLLOWED_FOR_CLAIMS: Final[tuple[Resource[Any], ...]] = (*CLAIM_KINDS, CLAIM_TEMPLATES, TAINT_RULES)
"""What it caches besides where claims can be booked."""
SHARES_OFF: Final = Policy(fair_shares=FairShares(mode="off"))
"""What holds while the policy file was invalid from the start: nobody waits for shares, nothing is taken."""


def main() -> int:
    """Run until a signal stops it; returns the exit code."""
    try:
        settings = load(ControllerSettings, os.environ)
        logs.configure(level=settings.log_level, style=settings.log_style)
        return build(settings, SystemClock()).run()
    except (SettingsError, BadConnectionError, ServeError) as error:
        sys.stderr.write(f"{error}\n")
        return 2


def build(settings: ControllerSettings, clock: Clock, registry: CollectorRegistry | None = None) -> Process:
    """Build the whole process: its ports are open, its threads not started. ``registry`` is for its metrics.

    Raises:
        BadConnectionError: the API server's address or credentials are missing.
        ServeError: a port cannot be listened on.
    """
    process = Process(names.CONTROLLER, clock)
    kube = KubeClient(configured(settings, clock, os.environ), clock, user_agent=names.CONTROLLER)
    process.closing("connections", kube.close)
    registry = registry or new_registry()
    claims = with_expressions(settings.dra_driver) if settings.book_claims else None
    cache = ClusterCache(clock, home=settings.namespace, sources=SOURCES, claims=claims)
    cache.keep_scheduling_objects()
    following = follow(kube, cache, clock, settings)
    wrong_clock = clock_skew_reason(kube.skew)
    base = Base(
        settings=settings,
        clock=clock,
        process=process,
        kube=kube,
        registry=registry,
        cache=cache,
        following=following,
        unready_reason=lambda: following.unready_reason() or wrong_clock(),
        executor=ThreadExecutor(),
        random=unpredictable(),
        policy=PolicyFile(settings.policy_file, clock, invalid=SHARES_OFF),
    )
    process.thread("policy", base.policy.run)
    healthy, ready = _serve_webhook(base)
    reclaimer = reclaim(base)
    if settings.maia:
        _answer_maia(base, reclaimer)
    show(Seen(cache, clock, staleness=following.staleness, unready_reason=base.unready_reason), registry)
    for name, body in following.threads.items():
        process.thread(name, body)
    probes = Probes(registry, healthy=healthy, ready=ready)
    process.closing("probes", serve(probes, settings.probe_host, settings.probe_port).close)
    return process


def follow(kube: Kube, cache: ClusterCache, clock: Clock, settings: ControllerSettings) -> Informers:
    """The informers of the cache."""
    return Informers(
        kube,
        cache,
        clock,
        namespace=settings.namespace,
        kinds=followed(settings),
        kubelets=settings.without_agent != "none",
        once_synced=freeze_objects,
    )


def followed(settings: ControllerSettings) -> tuple[Resource[Any], ...]:
    """The kinds that are cached besides those that every part does."""
    return (*FOLLOWED, *FOLLOWED_FOR_CLAIMS) if settings.book_claims else FOLLOWED


@dataclass(frozen=True, kw_only=True)
class Base:
    """What webhook and reclaimer share."""

    settings: ControllerSettings
    clock: Clock
    process: Process
    kube: KubeClient
    registry: CollectorRegistry
    cache: ClusterCache
    following: Informers
    unready_reason: Check
    """Why nothing may be decided now, None when it may (law L6)."""
    executor: Executor
    """Sends requests to the API server concurrently."""
    random: Random
    """Random numbers that spread attempts over time."""
    policy: PolicyFile
    """Says how GPUs without a booking are divided."""


def _serve_webhook(base: Base) -> tuple[dict[str, Check], dict[str, Check]]:
    """Serve the webhook, on every replica; returns its liveness and its readiness checks."""
    settings, clock = base.settings, base.clock
    metrics = Metrics(base.registry)
    admit = admission(base, metrics)
    webhook = TlsServer(
        Endpoint(
            admit,
            clock,
            metrics,
            admit_last=admit.last,
            hide=Answering(hide_devices, metrics),
            mark_claim=Answering(partial(mark_claim, driver=base.settings.dra_driver), metrics),
        ),
        clock,
        host=settings.webhook_host,
        port=settings.webhook_port,
    )
    base.process.closing("webhook", webhook.close)
    ends = CertificateExpiry()
    measured(
        base.registry,
        "controller_certificate_expiration_timestamp_seconds",
        "Unix time, in seconds, at which the webhook's certificate ends; NaN before one is served.",
        ends.at,
    )
    installed = WebhookInstaller(
        base.kube,
        clock,
        ends.recorded(webhook.present),
        namespace=settings.namespace,
        hosts=service_names(settings.webhook_service, settings.namespace),
        makes_keys=settings.webhook_certificates == "own",
    )
    base.process.thread("installed", installed.run)
    return {"webhook": webhook.problem}, {"webhook": installed.problem, "cluster": admit.problem}


def admission(base: Base, metrics: Metrics) -> Webhook:
    """Build the webhook. It needs namespaces, which the reclaimer follows as well."""
    settings = base.settings
    view = CachedClusterView(
        base.cache, rules=settings.identity_rules, known=settings.jupyterhub_users, kube=base.kube
    )
    latest = partial(read_bookings, base.kube, base.cache)
    return Webhook(
        _review(base),
        view,
        base.clock,
        metrics,
        unready_reason=base.unready_reason,
        read_bookings=latest,
        gpu_defaults=partial(_gpu_defaults, base.kube),
    )


def _gpu_defaults(kube: Kube, namespace: str) -> frozenset[str]:
    return gpu_defaults(kube.list(LIMIT_RANGES, Selection(namespace=namespace)).items)


def _turns(base: Base) -> str | None:
    """The mode of fair shares in which pods wait for their turn; None if they do not."""
    mode = base.policy.current().fair_shares.effective(maia=base.settings.maia)
    return None if mode == "off" else mode


def reclaim(base: Base) -> Reclaimer:
    """Build the reclaimer: it acts only while its replica holds the Lease."""
    settings, clock, kube = base.settings, base.clock, base.kube
    events = EventRecorder(kube, clock, component=names.CONTROLLER, registry=base.registry)
    evictor = PodEvictor(
        kube,
        clock,
        events,
        scheduler=settings.scheduler_name,
        executor=base.executor,
        random=base.random,
        jobs=base.cache.of(JOBS).all,
        claims=lambda pod: base.cache.with_claims(pod).claims,
    )
    evictor.follow(base.following)
    elector = LeaderElector(
        kube,
        clock,
        name=names.CONTROLLER_LEASE,
        namespace=settings.namespace,
        holder=_holder(settings.instance),
        instance=settings.instance,
        unfit=clock_skew_reason(kube.skew),
        annotations=lambda: {names.FAIR_SHARES: _turns(base) if base.unready_reason() is None else None},
    )
    guards = Guards(leads=elector.leads, unready_reason=base.unready_reason)
    count = CountedNodes(kube, base.cache, clock, without_agent=settings.without_agent, may_act=guards.permit)
    reclaimer = Reclaimer(
        kube,
        clock,
        base.cache,
        guards=guards,
        evictor=evictor,
        write_event=_event_writer(events),
        terms=_terms(settings),
        metrics=ReclaimerMetrics(base.registry),
        executor=base.executor,
        order=by_priority_and_age,
        victims=LEAST_LOST_WORK,
        fair_shares=lambda: base.policy.current().fair_shares,
        reservations=_reservations(settings),
        processor=thread_seconds,
    )
    evictor.seen.on_change(reclaimer.trigger)
    _tell_hubs(base, elector.leads)
    leads = "1 where this replica reclaims."
    measured(base.registry, "controller_leads", leads, lambda: float(elector.leads()))
    _measure_shares(base.registry, reclaimer)
    base.process.thread("elector", elector.run)
    base.process.thread("reclaimer", reclaimer.run)
    base.process.thread("counted nodes", count.run)
    base.process.thread("events", events.run)
    return reclaimer


def _measure_shares(registry: CollectorRegistry, reclaimer: Reclaimer) -> None:
    """The gauges of fair shares."""
    measured_each(
        registry,
        "reclaimer_starved_users",
        "Users who wait for a GPU without a booking and have less than a fair share, by model, where this"
        " replica leads.",
        reclaimer.starved_users,
        label="model",
    )
    measured_each(
        registry,
        "reclaimer_share_deficit_gpus",
        "GPUs that these users have less than they deserve, by model.",
        reclaimer.lacking,
        label="model",
    )


def _tell_hubs(base: Base, leads: Callable[[], bool]) -> None:
    """Tell JupyterHubs when an evicted notebook is back; nothing else waits for it, or depends on it."""
    returned = ReturnedNotebooks(base.clock)
    running = Reflector(
        base.kube,
        NOTEBOOKS,
        returned,
        base.clock,
        field_selector="status.phase=Running",
        label_selector=SELECTED,
    )
    apis = [(hub, HttpHubApi(hub)) for hub in base.settings.hubs]
    for _, api in apis:
        base.process.closing("hub", api.close)
    checks = RouteChecks(tuple(apis), returned, base.clock, leads=leads, registry=base.registry)
    if apis:
        base.process.thread("notebooks", running.run)
        base.process.thread("hubs", checks.run)


def _answer_maia(base: Base, reclaimer: Reclaimer) -> None:
    """Serve the API of MAIA's former pod terminator, on every replica."""
    settings = base.settings
    door = PodTerminator(
        base.kube,
        base.clock,
        base.cache,
        unready_reason=base.unready_reason,
        trigger_reclaimer=reclaimer.trigger,
    )
    base.process.closing("maia", serve(door, settings.maia_host, settings.maia_port).close)


def _event_writer(events: EventRecorder) -> WriteEvent:
    """A function that writes Events on pods: warnings, unless the reason implies that nothing is lost."""

    def write(pod: Pod, reason: str, message: str) -> None:
        good = reason in {
            event_reasons.GPUS_KEPT,
            event_reasons.SHARE_DUE,
            event_reasons.EVICTION_WITHDRAWN,
        }
        (events.normal if good else events.warning)(pod, reason, message)

    return write


def _terms(settings: ControllerSettings) -> EvictionSettings:
    return EvictionSettings(
        namespace=settings.namespace,
        maia=settings.maia,
        dra_driver=settings.dra_driver,
        queue_gate=settings.queue_gate,
        notice_seconds=settings.notice_seconds,
        longest_notice_seconds=settings.longest_notice_seconds,
        longest_grace_seconds=settings.longest_grace_seconds,
        restart_cost_seconds=settings.restart_cost_seconds,
        budget_override_seconds=(
            None if settings.budget_override_seconds == "never" else settings.budget_override_seconds
        ),
        evicts_over_users=settings.sharing_overuse == "evict",
        end_action_without_controller=settings.end_action_without_controller,
        end_action_with_controller=settings.end_action_with_controller,
        warn_before=settings.warn_before,
    )


def _reservations(settings: ControllerSettings) -> ReservationTerms | None:
    if not settings.sharing_reservation_image:
        return None
    return ReservationTerms(
        image=settings.sharing_reservation_image,
        scheduler=settings.scheduler_name,
        pull_secrets=settings.sharing_reservation_pull_secrets,
    )


def _review(base: Base) -> Review:
    settings, policy = base.settings, base.policy
    creators = Creators(
        rules=settings.identity_rules,
        trusted=frozenset(settings.trusted_creators),
        ourselves=settings.service_account,
    )
    return Review(
        creators=creators,
        scheduler=settings.scheduler_name,
        unbooked=settings.unbooked_action,
        unbooked_notebooks=settings.unbooked_notebook_action,
        queue_gate=settings.queue_gate,
        sharing=Sharing(
            dialects=settings.sharing_dialects,
            gpushare_unit=settings.sharing_gpushare_unit,
            default_percentage=settings.sharing_default,
            by_annotation=bool(settings.sharing_reservation_image),
            runtime_class=settings.sharing_runtime_class,
        ),
        gives_turns=lambda: _turns(base) is not None,
        share_groups=lambda: policy.current().fair_shares.kubernetes_groups,
        maia=settings.maia,
        claims=settings.book_claims,
    )


def _holder(instance: str | None) -> str:
    """Our identity as holder of a Lease: a new one at every start of the process."""
    return f"{instance or socket.gethostname()}_{secrets.token_hex(4)}"


if __name__ == "__main__":
    sys.exit(main())
