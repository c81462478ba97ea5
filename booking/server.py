"""The booking server's composition root: ``python -m booking.server``. It alone chooses adapters."""

import os
import secrets
import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry

from booking.cluster_status import ClusterStatus
from booking.durations import read
from booking.errors import StoreError
from booking.eviction_settings import EvictionSettings
from booking.mirror.lease import MirrorLease
from booking.mirror.mirror import Mirror
from booking.node_capacity import NodeCapacity
from booking.plan_controller import PlanController
from booking.policy.limits import Limits, told, zone_of
from booking.policy.policy import Policy as BookingPolicy
from booking.policy_file import FixedPolicy, PolicyFile
from booking.policy_history import PolicyHistory
from booking.server_metrics import ServerMetrics
from booking.service import BookingService
from booking.service.device_orders import NodeGpus
from booking.service.evict_orders import PodOrders
from booking.settings import ServerSettings
from booking.store import Store, open_store
from booking.web.anonymous_limits import AnonymousLimits
from booking.web.app import create_app
from booking.web.authentication import Authenticator
from booking.web.client_address import networks_of
from booking.web.free_gpus import free_gpus
from booking.web.interfaces import Parts, Policy
from booking.web.login.build import ground_of, provider_of
from booking.web.login.provider import Provider
from booking.web.login.session_auth import SessionAuth
from booking.web.login.session_csrf import SessionTokens
from booking.web.login.views import login_pages
from booking.web.maia import MaiaParts, maia
from booking.web.mirror_barrier import MirrorBarrier
from booking.web.pages.blueprint import pages
from booking.web.pages.csrf import CsrfProtection
from booking.web.pages.interfaces import PageParts
from booking.web.rate_limits import RateLimits
from booking.web.request_guard import RequestGuard
from booking.web.roles import Roles
from cluster import names
from cluster.cache import ClusterCache, Informers
from cluster.kube.access_review import AccessReviews
from cluster.kube.client import KubeClient
from cluster.kube.clock_skew import clock_skew_reason
from cluster.kube.connection import BadConnectionError
from cluster.kube.in_cluster import configured
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

WHILE_SOMEBODY_WAITS: Final = Timeouts(connect=1.0, read=3.0)
"""Whose a token is: asked in the middle of a request."""
THREADS: Final = 16
"""Requests at one time; a change holds one while the mirror writes."""
LONGEST_BODY: Final = 2**24
"""Bytes; what is larger than the API accepts, but not this large, is refused with a problem."""


def main() -> int:
    """Run until told to stop; the exit code."""
    try:
        settings = load(ServerSettings, os.environ)
        logs.configure(level=settings.log_level, style=settings.log_style)
        use_one_malloc_arena()
        return build(settings, SystemClock()).run()
    except (SettingsError, BadConnectionError, ServeError, StoreError) as error:
        sys.stderr.write(f"{error}\n")
        return 2


def build(settings: ServerSettings, clock: Clock, registry: CollectorRegistry | None = None) -> Process:
    """The whole process, listening already, its threads not started; ``registry`` is for its metrics.

    Raises:
        BadConnectionError: the API server's address or credentials are missing.
        ServeError: a port cannot be listened on.
        SettingsError: settings that do not fit together.
        StoreError: the database cannot be opened.
    """
    process = Process(names.BOOKING_SERVER, clock)
    ground = _ground(settings, clock, process, registry or new_registry())
    _measure(ground)
    for name, body in ground.following.threads.items():
        process.thread(name, body)
    process.thread("keeper", ground.keeper.run)
    process.thread("mirror", ground.mirror.run)
    if isinstance(ground.policy, PolicyFile):
        process.thread("policy file", ground.policy.run)
    web = serve(
        _app(ground),
        settings.host,
        settings.port,
        threads=THREADS,
        longest_body=LONGEST_BODY,
        keep_forwarded=bool(settings.trusted_proxies),
    )
    process.closing("web", web.close)
    ready: dict[str, Check] = {
        "cluster": ground.nodes.unready_reason,
        "clock": ground.wrong_clock,
        "database": _trouble_with(ground.store),
        "mirror": ground.mirror.unready_reason,
    }
    probes = serve(Probes(ground.registry, ready=ready), settings.probe_host, settings.probe_port)
    process.closing("probes", probes.close)
    return process


@dataclass(frozen=True, kw_only=True)
class _Ground:
    """What the addresses stand on."""

    settings: ServerSettings
    clock: Clock
    process: Process
    registry: CollectorRegistry
    metrics: ServerMetrics
    policy: PolicyFile | FixedPolicy
    store: Store
    asking: KubeClient
    """For what somebody waits for."""
    cache: ClusterCache
    following: Informers
    nodes: NodeCapacity
    mirror: Mirror
    keeper: PlanController
    terms: EvictionSettings
    wrong_clock: Check


def _ground(settings: ServerSettings, clock: Clock, process: Process, registry: CollectorRegistry) -> _Ground:
    """Database, connections, what is followed of the cluster, and what is written to it."""
    _demand_audiences(settings)
    api_server = configured(settings, clock, os.environ)
    store = open_store(settings.database)
    process.closing("database", store.close)
    policy = _policy(settings, clock, store)
    kube = KubeClient(api_server, clock, user_agent=names.BOOKING_SERVER)
    process.closing("connections", kube.close)
    asking = KubeClient(api_server, clock, user_agent=names.BOOKING_SERVER, timeouts=WHILE_SOMEBODY_WAITS)
    process.closing("asking connections", asking.close)
    metrics = ServerMetrics(registry)
    cache = ClusterCache(clock, home=settings.namespace)
    following = Informers(kube, cache, clock, namespace=settings.namespace)
    following.follow_namespaces()
    terms = _terms(settings)
    nodes = NodeCapacity(cache, clock, terms, unready_reason=following.unready_reason)
    lease = MirrorLease(kube, clock, namespace=settings.namespace, holder=_instance())
    mirror = Mirror(kube, store, clock, lease=lease, metrics=metrics)
    return _Ground(
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
        keeper=PlanController(kube, store, clock, nodes, moved=mirror.poke),
        terms=terms,
        wrong_clock=clock_skew_reason(kube.skew),
    )


def _terms(settings: ServerSettings) -> EvictionSettings:
    """Of what the controller does, as far as people are told of it here."""
    return EvictionSettings(
        namespace=settings.namespace,
        maia=settings.maia,
        end_action_without_controller=settings.end_action_without_controller,
        end_action_with_controller=settings.end_action_with_controller,
    )


def _app(ground: _Ground) -> "WSGIApplication":
    """Every address, and who may come in."""
    settings, clock = ground.settings, ground.clock
    audience = settings.audiences[0]
    service = BookingService(
        ground.store,
        clock,
        ground.policy.current,
        ground.nodes.capacity,
        evictions=PodOrders(ground.asking, home=settings.namespace),
        gpus=NodeGpus(ground.asking),
        identity_rules=settings.identity_rules,
    )
    parts = _parts(ground, service)
    roles = Roles(AccessReviews(ground.asking), clock)
    tokens = TokenReviews(ground.asking, settings.audiences)
    bearers = Authenticator(tokens, settings.identity_rules, clock, roles, audience=audience)
    oidc = provider_of(settings)
    provider = Provider(oidc, clock) if oidc else None
    if provider:
        ground.process.closing("connections to the identity provider", provider.close)
    login = ground_of(
        settings,
        ground.store,
        clock,
        bearers=bearers,
        roles=roles,
        rules=settings.identity_rules,
        provider=provider,
    )
    guard = RequestGuard(SessionAuth(login), _often(ground), _strangers(ground))
    blueprints = (
        pages(_seen(ground, parts, service, guard=guard, csrf=SessionTokens(login))),
        login_pages(login, guard, audience=audience, provider=provider),
        maia(_maia(ground, parts, service)),
    )
    return create_app(parts, guard, audience=audience, blueprints=blueprints)


def _often(ground: _Ground) -> RateLimits:
    """How often each may ask."""
    settings = ground.settings
    return RateLimits(ground.clock, per_second=settings.requests_per_second, burst=settings.request_burst)


def _strangers(ground: _Ground) -> AnonymousLimits:
    """Counts whoever is not signed in."""
    try:
        return AnonymousLimits(_often(ground), networks_of(ground.settings.trusted_proxies))
    except ValueError as error:
        name = names.setting("trusted_proxies")
        raise SettingsError(f"The setting {name} is no list of networks: {error}.") from error


def _parts(ground: _Ground, service: BookingService) -> Parts:
    """What REST is made of."""
    policy, clock = ground.policy, ground.clock
    live = ClusterStatus(
        ground.cache,
        ground.asking,
        clock,
        ground.terms,
        visibility=lambda: policy.current().visibility,
        unready_reason=ground.nodes.unready_reason,
    )
    return Parts(
        bookings=service,
        live=live,
        mirror=ground.mirror,
        no_promises=lambda: ground.wrong_clock() or ground.mirror.unready_reason(),
        unknown_capacity=ground.nodes.unready_reason,
        zone=lambda: zone_of(policy.current().zone),
        policy=lambda model: _everybodys(policy.current(), model, clock),
        terms=ground.terms,
        clock=clock,
        metrics=ground.metrics,
    )


def _maia(ground: _Ground, parts: Parts, service: BookingService) -> MaiaParts:
    """What MAIA's addresses are made of."""
    cache = ground.cache

    def free() -> dict[str, int]:
        with cache.locked():
            cordoned = {name for name, node in cache.nodes.items() if node.spec.unschedulable}
            return free_gpus(cache.node_snapshots(), cordoned)

    return MaiaParts(
        bookings=service,
        store=ground.store,
        readers=_strangers(ground),
        guesses=_strangers(ground),
        guarantee=MirrorBarrier(parts.mirror, parts.no_promises, parts.unknown_capacity),
        rules=ground.settings.identity_rules,
        free=free,
        unknown_capacity=parts.unknown_capacity,
        token_file=ground.settings.maia_token_file,
    )


def _seen(
    ground: _Ground, parts: Parts, service: BookingService, *, guard: RequestGuard, csrf: CsrfProtection
) -> PageParts:
    """What the pages are made of."""
    return PageParts(
        bookings=service,
        administration=service,
        live=parts.live,
        policy=ground.policy.current,
        policy_trouble=ground.policy.problem,
        guard=guard,
        csrf=csrf,
        guarantee=MirrorBarrier(parts.mirror, parts.no_promises, parts.unknown_capacity),
        unknown_capacity=parts.unknown_capacity,
        zone=parts.zone,
        pods_of=ground.nodes.attached,
        terms=parts.terms,
        clock=parts.clock,
    )


def _measure(ground: _Ground) -> None:
    """What is read only when somebody asks."""
    registry, mirror = ground.registry, ground.mirror
    measured(
        registry,
        "server_cache_staleness_seconds",
        "Seconds since the last event or bookmark of the stalest watch (pods, nodes, Leases,"
        " Namespaces, bookings).",
        ground.following.staleness,
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
        lambda: float(ground.policy.problem() is not None),
    )
    _measure_promises(registry, ground.keeper)


def _measure_promises(registry: CollectorRegistry, keeper: PlanController) -> None:
    """How promises stand."""
    measured(
        registry,
        "server_bookings_at_risk",
        "Bookings, running and planned, that find no place as the cluster is now; NaN while unknown.",
        lambda: float(keeper.outlook.at_risk) if keeper.outlook else None,
    )
    measured_each(
        registry,
        "server_bookable_gpus",
        "Whole healthy GPUs that can be booked, by model.",
        lambda: keeper.outlook.gpus if keeper.outlook else {},
        label="model",
    )
    measured_each(
        registry,
        "server_booked_gpus",
        "GPUs of the bookings that are running, by model.",
        lambda: keeper.outlook.booked if keeper.outlook else {},
        label="model",
    )


def _demand_audiences(settings: ServerSettings) -> None:
    """See that tokens are for somebody.

    Raises:
        SettingsError: they are not.
    """
    if not settings.audiences or not all(each and each.isprintable() for each in settings.audiences):
        raise SettingsError(
            f"The setting {names.setting('audiences')} is empty, or one of them has no visible name:"
            " name at least one audience."
        )


def _policy(settings: ServerSettings, clock: Clock, store: Store) -> PolicyFile | FixedPolicy:
    """The policy of the file; where there is none, the manual's with the settings' three limits."""
    try:
        if settings.policy_file is not None:
            return PolicyFile(settings.policy_file, clock, PolicyHistory(store, clock))
        limits = Limits(
            cooldown=read(settings.cooldown),
            shortest=read(settings.shortest_booking),
            longest=read(settings.longest_booking),
        )
        given = {name: getattr(limits, name) for name in ("cooldown", "shortest", "longest")}
        return FixedPolicy(BookingPolicy(defaults=given))
    except ValueError as error:
        raise SettingsError(str(error)) from error


def _everybodys(policy: BookingPolicy, model: str | None, clock: Clock) -> Policy:
    """What holds for whoever is not named in particular."""
    limits = policy.limits_for(user="", model=model or "", now=clock.now())
    return Policy(version=policy.version, zone=policy.zone, limits=told(limits))


def _trouble_with(store: Store) -> Check:
    """Whether the database can be used."""

    def problem() -> str | None:
        try:
            store.check()
        except StoreError as error:
            return str(error)
        return None

    return problem


def _instance() -> str:
    """Who we are: another for every start of the process."""
    return f"{socket.gethostname()}_{secrets.token_hex(4)}"


if __name__ == "__main__":
    sys.exit(main())
