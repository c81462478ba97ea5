"""The booking server's composition root: ``python -m booking.server``. Adapters are chosen here only."""

import os
import secrets
import socket
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry

from booking.durations import read
from booking.eviction.settings import EvictionSettings
from booking.eviction.victims import LEAST_LOST_WORK
from booking.policy.limits import Limits, limit_values, zone_of
from booking.policy.policy import Policy as BookingPolicy
from booking.policy_file import PolicyFile
from booking.server.cluster_status import ClusterStatus, ShareHistory
from booking.server.cluster_status.gauges import show
from booking.server.errors import StoreError
from booking.server.metrics import ServerMetrics
from booking.server.mirror.lease import MirrorLease
from booking.server.mirror.mirror import Mirror
from booking.server.node_capacity import NodeCapacity
from booking.server.plan_controller import PlanController
from booking.server.policy_history import PolicyHistory
from booking.server.service import BookingService
from booking.server.service.device_orders import NodeGpus
from booking.server.service.evict_orders import PodOrders
from booking.server.settings import ServerSettings
from booking.server.store import Store, open_store
from booking.server.web.anonymous_limits import AnonymousLimits
from booking.server.web.app import create_app
from booking.server.web.authentication import Authenticator
from booking.server.web.client_address import networks_of
from booking.server.web.interfaces import Parts, Policy
from booking.server.web.login.build import login_context, provider_of
from booking.server.web.login.kept_forms import SessionForms
from booking.server.web.login.provider import Provider
from booking.server.web.login.session_auth import LoginContext, SessionAuth
from booking.server.web.login.session_csrf import SessionTokens
from booking.server.web.login.views import login_pages
from booking.server.web.maia import MaiaParts, free_gpus, maia
from booking.server.web.mirror_barrier import MirrorBarrier
from booking.server.web.pages.blueprint import pages
from booking.server.web.pages.interfaces import PageParts
from booking.server.web.rate_limits import RateLimits
from booking.server.web.request_guard import RequestGuard
from booking.server.web.roles import Roles
from cluster import names
from cluster.cache import CLAIM_KINDS, ClusterCache, Informers, with_expressions
from cluster.decide.ledger import SOURCES
from cluster.kube.access_review import AccessReviews
from cluster.kube.client import KubeClient
from cluster.kube.clock_skew import clock_skew_reason
from cluster.kube.connection import BadConnectionError
from cluster.kube.interface import Kube
from cluster.kube.official_client import configured
from cluster.kube.resources import JOBS, NAMESPACES, Resource
from cluster.kube.token_review import TokenReviews
from cluster.kube.transport import Timeouts
from cluster.process import logs
from cluster.process.clock import Clock, SystemClock
from cluster.process.lifecycle import Process
from cluster.process.malloc import use_one_malloc_arena
from cluster.process.metrics import measured, measured_each, new_registry
from cluster.process.probes import Check, Probes, ServeError, serve
from cluster.process.settings import SettingsError, load

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

INTERACTIVE_TIMEOUTS: Final = Timeouts(connect=1.0, read=3.0)
"""Seconds for requests to the API server that a user's request waits for, such as a token review."""
THREADS: Final = 16
"""Concurrent requests; a change occupies one while the mirror writes."""
LONGEST_BODY: Final = 2**24
"""Bytes; a body larger than the API accepts, but not this large, is refused with a problem."""


FOLLOWED: Final[tuple[Resource[Any], ...]] = (NAMESPACES, JOBS)
"""Kinds that it caches besides those that every part does; the chart's role allows to list and watch them."""


def main() -> int:
    """Run until a signal stops it; returns the exit code."""
    try:
        settings = load(ServerSettings, os.environ)
        logs.configure(level=settings.log_level, style=settings.log_style)
        use_one_malloc_arena()
        return build(settings, SystemClock()).run()
    except (SettingsError, BadConnectionError, ServeError, StoreError) as error:
        sys.stderr.write(f"{error}\n")
        return 2


def build(settings: ServerSettings, clock: Clock, registry: CollectorRegistry | None = None) -> Process:
    """Build the whole process: already listening, its threads not started. ``registry`` is for its metrics.

    Raises:
        BadConnectionError: the API server's address or credentials are missing.
        ServeError: a port cannot be listened on.
        SettingsError: settings that do not fit together.
        StoreError: the database cannot be opened.
    """
    process = Process(names.BOOKING_SERVER, clock)
    backends = _backends(settings, clock, process, registry or new_registry())
    _measure(backends)
    for name, body in backends.following.threads.items():
        process.thread(name, body)
    process.thread("plan controller", backends.plan_controller.run)
    process.thread("shares", backends.shares.run)
    process.thread("mirror", backends.mirror.run)
    process.thread("policy file", backends.policy.run)
    web = serve(
        application(backends),
        settings.host,
        settings.port,
        threads=THREADS,
        longest_body=LONGEST_BODY,
        keep_forwarded=bool(settings.trusted_proxies),
    )
    process.closing("web", web.close)
    ready: dict[str, Check] = {
        "cluster": backends.nodes.unready_reason,
        "clock": backends.wrong_clock,
        "database": _trouble_with(backends.store),
        "mirror": backends.mirror.unready_reason,
    }
    probes = serve(Probes(backends.registry, ready=ready), settings.probe_host, settings.probe_port)
    process.closing("probes", probes.close)
    return process


@dataclass(frozen=True, kw_only=True)
class Backends:
    """The dependencies of the HTTP endpoints."""

    settings: ServerSettings
    clock: Clock
    process: Process
    registry: CollectorRegistry
    metrics: ServerMetrics
    policy: PolicyFile
    store: Store
    asking: Kube
    """For calls on which a user's request waits."""
    cache: ClusterCache
    following: Informers
    nodes: NodeCapacity
    mirror: Mirror
    plan_controller: PlanController
    terms: EvictionSettings
    wrong_clock: Check
    shares: ShareHistory


def _backends(
    settings: ServerSettings, clock: Clock, process: Process, registry: CollectorRegistry
) -> Backends:
    """Database, connections, the cluster's informers, and the components that write to the cluster."""
    _demand_audiences(settings)
    api_server = configured(settings, clock, os.environ)
    store = open_store(settings.database)
    process.closing("database", store.close)
    store.expect_writers()
    policy = _policy(settings, clock, store)
    kube = KubeClient(api_server, clock, user_agent=names.BOOKING_SERVER)
    process.closing("connections", kube.close)
    asking = KubeClient(api_server, clock, user_agent=names.BOOKING_SERVER, timeouts=INTERACTIVE_TIMEOUTS)
    process.closing("asking connections", asking.close)
    metrics = ServerMetrics(registry)
    claims = with_expressions(settings.dra_driver) if settings.book_claims else None
    cache = ClusterCache(clock, home=settings.namespace, sources=SOURCES, claims=claims)
    kubelets = settings.without_agent != "none"
    kinds = (*FOLLOWED, *CLAIM_KINDS) if settings.book_claims else FOLLOWED
    following = Informers(kube, cache, clock, namespace=settings.namespace, kinds=kinds, kubelets=kubelets)
    terms = terms_of(settings)
    nodes = NodeCapacity(cache, clock, terms, unready_reason=following.unready_reason, policy=policy.current)
    lease = MirrorLease(kube, clock, namespace=settings.namespace, holder=_instance())
    mirror = Mirror(kube, store, clock, lease=lease, metrics=metrics, resources=nodes.resources)
    return Backends(
        settings=settings,
        clock=clock,
        process=process,
        registry=registry,
        metrics=metrics,
        policy=policy,
        store=store,
        asking=asking,
        cache=cache,
        following=following,
        nodes=nodes,
        mirror=mirror,
        plan_controller=PlanController(
            kube, store, clock, nodes, moved=mirror.trigger, keeps_ahead=_keeps_ahead(settings)
        ),
        terms=terms,
        wrong_clock=clock_skew_reason(kube.skew),
        shares=ShareHistory(
            cache,
            clock,
            terms,
            unready_reason=following.unready_reason,
            fair_shares=lambda: policy.current().fair_shares,
        ),
    )


def _keeps_ahead(settings: ServerSettings) -> timedelta | None:
    seconds = settings.keep_nodes_seconds
    return None if seconds == "never" else timedelta(seconds=seconds)


def terms_of(settings: ServerSettings) -> EvictionSettings:
    """The controller's settings, as far as the pages describe what the controller does."""
    return EvictionSettings(
        namespace=settings.namespace,
        maia=settings.maia,
        dra_driver=settings.dra_driver,
        restart_cost_seconds=settings.restart_cost_seconds,
        evicts_over_users=settings.sharing_overuse == "evict",
        end_action_without_controller=settings.end_action_without_controller,
        end_action_with_controller=settings.end_action_with_controller,
    )


def application(backends: Backends) -> "WSGIApplication":
    """The WSGI application with every path, and authentication."""
    settings, clock = backends.settings, backends.clock
    audience = settings.audiences[0]
    service = BookingService(
        backends.store,
        clock,
        backends.policy.current,
        backends.nodes.capacity,
        evictions=PodOrders(backends.asking, home=settings.namespace, jobs=backends.cache.of(JOBS).all),
        gpus=NodeGpus(backends.asking),
        identity_rules=settings.identity_rules,
    )
    roles = Roles(AccessReviews(backends.asking), clock)
    parts = _parts(backends, service, roles)
    tokens = TokenReviews(backends.asking, settings.audiences)
    bearers = Authenticator(tokens, settings.identity_rules, clock, roles, audience=audience)
    oidc = provider_of(settings)
    provider = Provider(oidc, clock) if oidc else None
    if provider:
        backends.process.closing("connections to the identity provider", provider.close)
    login = login_context(
        settings,
        backends.store,
        clock,
        bearers=bearers,
        roles=roles,
        rules=settings.identity_rules,
        provider=provider,
    )
    guard = RequestGuard(SessionAuth(login), _often(backends), _strangers(backends))
    blueprints = (
        pages(_seen(backends, parts, service, guard=guard, login=login)),
        login_pages(login, guard, audience=audience, provider=provider),
        maia(_maia(backends, parts, service)),
    )
    return create_app(parts, guard, audience=audience, blueprints=blueprints)


def _often(backends: Backends) -> RateLimits:
    """Rate limits for each user."""
    settings = backends.settings
    return RateLimits(backends.clock, per_second=settings.requests_per_second, burst=settings.request_burst)


def _strangers(backends: Backends) -> AnonymousLimits:
    """Rate limits for clients that are not signed in."""
    try:
        return AnonymousLimits(_often(backends), networks_of(backends.settings.trusted_proxies))
    except ValueError as error:
        name = names.setting("trusted_proxies")
        raise SettingsError(f"The setting {name} is not a list of networks: {error}.") from error


def _parts(backends: Backends, service: BookingService, roles: Roles) -> Parts:
    """The dependencies of the REST API."""
    policy, clock = backends.policy, backends.clock
    live = ClusterStatus(
        backends.cache,
        backends.asking,
        clock,
        backends.terms,
        visibility=lambda: policy.current().visibility,
        unready_reason=backends.nodes.unready_reason,
        may_read_events=roles.may_read_events,
        resources=backends.nodes.resources,
        bookable=service.bookable,
        victims=LEAST_LOST_WORK,
        fair_shares=lambda: policy.current().fair_shares,
        history=backends.shares,
    )
    show(live, backends.registry)
    return Parts(
        bookings=service,
        live=live,
        mirror=backends.mirror,
        not_guaranteed_reason=lambda: backends.wrong_clock() or backends.mirror.unready_reason(),
        unknown_capacity=backends.nodes.unready_reason,
        zone=lambda: zone_of(policy.current().zone),
        policy=lambda model: _general_policy(policy.current(), model, clock),
        terms=backends.terms,
        clock=clock,
        metrics=backends.metrics,
    )


def _maia(backends: Backends, parts: Parts, service: BookingService) -> MaiaParts:
    """The dependencies of MAIA's endpoints."""
    cache = backends.cache

    def free() -> dict[str, int]:
        with cache.locked():
            cordoned = {name for name, node in cache.nodes.items() if node.spec.unschedulable}
            return free_gpus(cache.node_snapshots(), cordoned)

    return MaiaParts(
        bookings=service,
        store=backends.store,
        readers=_strangers(backends),
        guesses=_strangers(backends),
        guarantee=MirrorBarrier(parts.mirror, parts.not_guaranteed_reason, parts.unknown_capacity),
        rules=backends.settings.identity_rules,
        free=free,
        unknown_capacity=parts.unknown_capacity,
        token_file=backends.settings.maia_token_file,
    )


def _seen(
    backends: Backends, parts: Parts, service: BookingService, *, guard: RequestGuard, login: LoginContext
) -> PageParts:
    """The dependencies of the pages."""
    return PageParts(
        bookings=service,
        live=parts.live,
        policy=backends.policy.current,
        policy_trouble=backends.policy.problem,
        guard=guard,
        csrf=SessionTokens(login),
        kept=SessionForms(login),
        guarantee=MirrorBarrier(parts.mirror, parts.not_guaranteed_reason, parts.unknown_capacity),
        unknown_capacity=parts.unknown_capacity,
        zone=parts.zone,
        pods_of=backends.nodes.attached,
        resources=backends.nodes.resources,
        terms=parts.terms,
        clock=parts.clock,
    )


def _measure(backends: Backends) -> None:
    """Register the gauges that are computed only at a scrape."""
    registry, mirror = backends.registry, backends.mirror
    measured(
        registry,
        "server_cache_staleness_seconds",
        "Seconds since the last event or bookmark of the stalest watch (pods, nodes, Leases,"
        " Namespaces, bookings).",
        backends.following.staleness,
    )
    measured(
        registry,
        "mirror_age_seconds",
        "Seconds since the Booking objects were last brought up to date with the database.",
        mirror.age,
    )
    measured(
        registry,
        "mirror_store_unknown",
        "1 while the mirror has stopped: the Booking objects are not from this database (law L9).",
        lambda: float(mirror.is_stopped),
    )
    measured(
        registry,
        "policy_file_invalid",
        "1 while the policy file is invalid or missing, and the last valid policy is in force.",
        lambda: float(backends.policy.problem() is not None),
    )
    _measure_plan(registry, backends.plan_controller)


def _measure_plan(registry: CollectorRegistry, plan_controller: PlanController) -> None:
    """The gauges of the booking plan."""
    measured(
        registry,
        "server_bookings_at_risk",
        "Bookings, running and planned, that find no place as the cluster is now; NaN while unknown.",
        lambda: float(plan_controller.status.at_risk) if plan_controller.status else None,
    )
    measured_each(
        registry,
        "server_gpus",
        "Healthy GPUs that bookings can have at one time or another, by model.",
        lambda: plan_controller.status.gpus if plan_controller.status else {},
        label="model",
    )
    measured_each(
        registry,
        "server_booked_gpus",
        "GPUs of the bookings that are running, by model.",
        lambda: plan_controller.status.booked if plan_controller.status else {},
        label="model",
    )


def _demand_audiences(settings: ServerSettings) -> None:
    """Check that tokens must be made for an audience.

    Raises:
        SettingsError: there is no audience, or one without a visible name.
    """
    if not settings.audiences or not all(each and each.isprintable() for each in settings.audiences):
        raise SettingsError(
            f"The setting {names.setting('audiences')} is empty, or one of them has no visible name:"
            " name at least one audience."
        )


def _policy(settings: ServerSettings, clock: Clock, store: Store) -> PolicyFile:
    """The policy of the file; without one, the manual's with the settings' three limits."""
    try:
        limits = Limits(
            cooldown=read(settings.cooldown),
            shortest=read(settings.shortest_booking),
            longest=read(settings.longest_booking),
        )
        given = {name: getattr(limits, name) for name in ("cooldown", "shortest", "longest")}
        default, history = BookingPolicy(defaults=given), PolicyHistory(store, clock)
        return PolicyFile(settings.policy_file, clock, default=default, history=history)
    except ValueError as error:
        raise SettingsError(str(error)) from error


def _general_policy(policy: BookingPolicy, model: str | None, clock: Clock) -> Policy:
    """The policy for users whom it does not name in particular."""
    limits = policy.limits_for(user="", model=model or "", now=clock.now())
    return Policy(version=policy.version, zone=policy.zone, limits=limit_values(limits))


def _trouble_with(store: Store) -> Check:
    """A check whether the database can be used."""

    def problem() -> str | None:
        try:
            store.check()
        except StoreError as error:
            return str(error)
        return None

    return problem


def _instance() -> str:
    """Our identity as holder of a Lease: a new one at every start of the process."""
    return f"{socket.gethostname()}_{secrets.token_hex(4)}"


if __name__ == "__main__":
    sys.exit(main())
