"""The extender's composition root: ``python -m extender``. The only place where real adapters are chosen."""

import os
import sys

from cluster import names
from cluster.kube.client import KubeClient
from cluster.kube.connection import BadConnectionError, Connection
from cluster.kube.events import EventRecorder
from cluster.kube.incluster import in_cluster
from cluster.kube.transport import Timeouts
from cluster.runtime import logs
from cluster.runtime.clock import Clock, SystemClock
from cluster.runtime.metrics import measured, new_registry
from cluster.runtime.probes import Probes, ServeError, serve
from cluster.runtime.process import Process
from cluster.runtime.settings import SettingsError, load
from extender.bind import Bind
from extender.explain import Explain
from extender.filter import Filter
from extender.flights import Flights
from extender.freeze import Freeze
from extender.metrics import Metrics
from extender.policies.binpack import binpack
from extender.prioritize import Prioritize
from extender.server import Verbs, create_app, with_probes
from extender.settings import Settings
from extender.settle import Settle
from extender.state import ClusterState
from extender.sync import Sync
from extender.trust import clock_obstacle, first_obstacle
from extender.wake import Wake

ANSWERS_A_BIND = Timeouts(connect=1.0, read=3.0)
"""kube-scheduler gives a bind 5 s."""


def main() -> int:
    """Run until told to stop; the exit code."""
    try:
        settings = load(Settings, os.environ)
        logs.configure(level=settings.log_level, style=settings.log_style)
        return build(settings, SystemClock()).run()
    except (SettingsError, BadConnectionError, ServeError) as error:
        sys.stderr.write(f"{error}\n")
        return 2


def build(settings: Settings, clock: Clock) -> Process:
    """The whole process, listening already, its threads not started.

    Raises:
        BadConnectionError: the API server's address or credentials are missing.
        ServeError: a port cannot be listened on.
    """
    process = Process(names.EXTENDER, clock)
    kube = KubeClient(connection(settings, clock), clock, user_agent=names.EXTENDER)
    binding_kube = KubeClient(
        connection(settings, clock), clock, user_agent=names.EXTENDER, timeouts=ANSWERS_A_BIND
    )
    registry = new_registry()
    events = EventRecorder(kube, clock, component=names.EXTENDER, registry=registry)

    state = ClusterState(clock)
    sync = Sync(kube, state, clock, namespace=settings.namespace, scheduler=settings.scheduler_name)
    obstacle = first_obstacle(sync.obstacle, clock_obstacle(kube.skew))
    flights = Flights()
    verbs = Verbs(
        filter=Filter(state),
        prioritize=Prioritize(state, binpack),
        bind=Bind(binding_kube, state, clock, flights),
    )
    settle = Settle(kube, state, clock, flights)
    wake = Wake(kube, state, clock, namespace=settings.namespace)
    explain = Explain(state, clock, events.warning, obstacle)

    measured(
        registry, "extender_news_age_seconds", "Age of the newest news of pods, nodes, leases.", sync.age
    )
    probes = Probes(registry, ready={"cluster": obstacle})
    app = create_app(verbs, obstacle, clock, Metrics(registry), limit=settings.max_body_bytes)

    for name, body in sync.threads.items():
        process.thread(name, body)
    process.thread("settle", settle.run)
    process.thread("explain", explain.run)
    process.thread("freeze", Freeze(sync.obstacle, clock).run)
    process.thread("wake", wake.run)
    process.thread("events", events.run)

    process.closing("connections", kube.close)
    process.closing("binding connections", binding_kube.close)
    server = serve(
        with_probes(app, probes),
        settings.host,
        settings.port,
        threads=settings.threads,
        longest_body=settings.max_body_bytes,
    )
    process.closing("verbs", server.close)
    process.closing("probes", serve(probes, settings.probe_host, settings.probe_port).close)
    return process


def connection(settings: Settings, clock: Clock) -> Connection:
    """How the API server is reached: as in every pod, or as the settings say."""
    return in_cluster(
        clock,
        os.environ,
        server=settings.kube_server,
        ca_file=settings.kube_ca_file,
        token_file=settings.kube_token_file,
    )


if __name__ == "__main__":
    sys.exit(main())
