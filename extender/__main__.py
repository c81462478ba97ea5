"""The extender's composition root: ``python -m extender``. The only place where real adapters are chosen."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from cluster import names
from cluster.kube.client import KubeClient
from cluster.kube.connection import BadConnectionError
from cluster.kube.events import EventRecorder
from cluster.kube.incluster import configured
from cluster.kube.port import Kube
from cluster.kube.skew import clock_obstacle
from cluster.kube.transport import Timeouts
from cluster.picture import UNSUCCESSFUL, Following
from cluster.runtime import logs
from cluster.runtime.clock import Clock, SystemClock
from cluster.runtime.loops import Body, Loops
from cluster.runtime.metrics import measured, new_registry
from cluster.runtime.probes import Check, Probes, ServeError, serve
from cluster.runtime.process import Process
from cluster.runtime.settings import SettingsError, load
from extender import gauges
from extender.bind import CONNECTING, Bind
from extender.electing import leadership
from extender.explain import EVERY as EXPLAINS_EVERY
from extender.explain import Explain
from extender.filter import Filter
from extender.flights import Flights
from extender.freeze import Freeze
from extender.metrics import Metrics
from extender.patient import Patient
from extender.preempt import Preempt, Terms
from extender.prioritize import Prioritize
from extender.refusals import EVERY as REFUSALS_EVERY
from extender.refusals import Refusals
from extender.remeasure import EVERY as REMEASURES_EVERY
from extender.remeasure import Remeasure
from extender.ring import Ring, with_ring
from extender.server import Verbs, create_app, with_probes
from extender.serving import serve_by_tls, serve_plainly
from extender.settings import Settings
from extender.settle import EVERY as SETTLES_EVERY
from extender.settle import Settle
from extender.state import ClusterState
from extender.trust import first_obstacle
from extender.wake import EVERY as WAKES_EVERY
from extender.wake import Wake

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

SWITCH_SECONDS = 0.0002
"""So long a question waits for a thread that works, mostly one that reads a list, each time that it passes
from thread to thread, which is some four times; Python's own is 5 ms."""
ANSWERS_A_BIND = Timeouts(connect=CONNECTING, read=3.0)
"""kube-scheduler gives a bind 5 s."""


def main() -> int:
    """Run until told to stop; the exit code."""
    try:
        settings = load(Settings, os.environ)
        ring = Ring(SystemClock())
        logs.configure(level=settings.log_level, style=settings.log_style, keep=ring.keep)
        sys.setswitchinterval(SWITCH_SECONDS)
        return build(settings, SystemClock(), ring=ring).run()
    except (SettingsError, BadConnectionError, ServeError) as error:
        sys.stderr.write(f"{error}\n")
        return 2


def build(
    settings: Settings,
    clock: Clock,
    registry: CollectorRegistry | None = None,
    ring: Ring | None = None,
) -> Process:
    """The whole process, listening already, its threads not started.

    Args:
        settings: from the environment.
        clock: the time.
        registry: for its metrics; by default a new one.
        ring: the last decisions.

    Raises:
        BadConnectionError: the API server's address or credentials are missing.
        ServeError: a port cannot be listened on.
    """
    process = Process(names.EXTENDER, clock)
    kube, binding_kube = _api_server(settings, process, clock)
    registry = registry or new_registry()
    events = EventRecorder(kube, clock, component=names.EXTENDER, registry=registry)
    state = ClusterState(clock, settings.scheduler_name, home=settings.namespace)
    following = follow(kube, state, clock, namespace=settings.namespace)
    wrong_clock = clock_obstacle(kube.skew)
    doubts: list[Check] = [wrong_clock]
    leading = leadership(settings, binding_kube, state, clock=clock, unfit=doubts)
    obstacle = first_obstacle(following.obstacle, *doubts, leading.obstacle)
    flights, metrics = Flights(clock), Metrics(registry)
    loops = Loops(clock, lambda name: metrics.loops.labels(loop=name).inc())
    bind = Bind(binding_kube, state, clock, flights, leads=leading.leads)
    verbs = Verbs(
        filter=Filter(state).told,
        prioritize=Prioritize(state, clock, settings.placement).told,
        preempt=Preempt(state, clock, terms(settings)),
        bind=Patient(bind, state, clock, at_most=binds_at_once(settings)),
    )
    refusals = Refusals(state, clock, events.warning, metrics, leads=leading.leads)

    gauges.show(registry, state, gauges.Sources(following.age, following.lists, refusals.refusing))
    app = with_ring(
        create_app(verbs, obstacle, clock, metrics, limit=settings.max_body_bytes, way=state.way.taken),
        ring or Ring(clock),
    )

    freeze = Freeze(following.obstacle, clock).run
    remeasure = Remeasure(kube, wrong_clock, clock, namespace=settings.namespace)
    lasting = {**following.threads, **leading.threads, "events": events.run, "freeze": freeze}
    rounds = {
        "settle": (SETTLES_EVERY, Settle(kube, state, clock, flights).look),
        "explain": (EXPLAINS_EVERY, Explain(state, clock, events.warning, obstacle).look),
        "refusals": (REFUSALS_EVERY, refusals.reconcile),
        "clock": (REMEASURES_EVERY, remeasure.reconcile),
        "wake": (WAKES_EVERY, Wake(kube, state, clock, namespace=settings.namespace).look),
    }
    go_on(process, loops, lasting, rounds)
    doubts += _listen(app, process, settings, clock, ready=Ready(registry, loops, obstacle))
    return process


def follow(kube: Kube, state: ClusterState, clock: Clock, *, namespace: str) -> Following:
    """What the extender knows of the cluster; its news wait while kube-scheduler is answered."""
    found = Following(kube, state, clock, namespace=namespace, pods=UNSUCCESSFUL, give_way=state.way.give)
    found.follow_namespaces()
    return found


def go_on(
    process: Process,
    loops: Loops,
    lasting: Mapping[str, Body],
    rounds: Mapping[str, tuple[float, Callable[[], None]]],
) -> None:
    """A thread for each loop of its own, and for each that does something every so many seconds."""
    for name, body in lasting.items():
        process.thread(name, loops.lasting(name, body))
    for name, (every, work) in rounds.items():
        process.thread(name, loops.rounds(name, every, work))


@dataclass(frozen=True, slots=True)
class Ready:
    """What the probes tell."""

    registry: CollectorRegistry
    loops: Loops
    obstacle: Check


def _listen(
    app: "WSGIApplication", process: Process, settings: Settings, clock: Clock, *, ready: Ready
) -> list[Check]:
    """Serve verbs and probes until the process ends; why nobody can ask us."""
    checks = {"cluster": ready.obstacle, "loops": ready.loops.unready_reason}
    served = serve_by_tls(app, settings, process, clock) if settings.mode == "existing" else None
    if served:
        checks["certificate"] = served.trouble
        go_on(process, ready.loops, {"certificate": served.follow}, {})
    measured(
        ready.registry,
        "extender_certificate_expiration_timestamp_seconds",
        "Unix time, in seconds, at which the certificate of mode `existing` ends; NaN in the other mode.",
        lambda: served.certificate_ends() if served else None,
    )
    probes = Probes(ready.registry, ready=checks)
    if settings.mode == "dedicated":
        serve_plainly(with_probes(app, probes), settings, process)
    process.closing("probes", serve(probes, settings.probe_host, settings.probe_port).close)
    return [served.trouble] if served else []


def _api_server(settings: Settings, process: Process, clock: Clock) -> tuple[KubeClient, KubeClient]:
    """Two clients: one for everything, one whose answers somebody waits for."""
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
    """So many of the threads may be taken by binds; the rest is for the other verbs alone."""
    return max(1, settings.threads * 3 // 4)


def terms(settings: Settings) -> Terms:
    """What is decided about evictions."""
    return Terms(home=settings.namespace, maia=settings.maia, restart_seconds=settings.restart_cost_seconds)


if __name__ == "__main__":
    sys.exit(main())
