"""The node agent: finds the node's GPUs, hands them to the kubelet, and says what there is.

``python -m deviceplugin``; settings in ``deviceplugin/settings.py``. The composition root: adapters are
chosen here and nowhere else. Exit code 2 means settings that cannot be used.
"""

import os
import sys
from collections.abc import Mapping
from functools import partial

from prometheus_client import CollectorRegistry

from cluster import names
from cluster.kube.client import KubeClient
from cluster.kube.connection import BadConnectionError
from cluster.kube.incluster import in_cluster
from cluster.kube.lease import LeaseRenewer
from cluster.kube.port import Kube
from cluster.runtime import logs
from cluster.runtime.clock import Clock, SystemClock
from cluster.runtime.metrics import measured, new_registry
from cluster.runtime.probes import Check, Probes, ServeError, serve
from cluster.runtime.process import Process
from cluster.runtime.settings import SettingsError, load
from deviceplugin.admission import Admission, Sources
from deviceplugin.board import Board
from deviceplugin.checkpoint import CheckpointFile
from deviceplugin.handout import LONGEST_SILENCE, SILENT, Folders, Handout
from deviceplugin.metrics import AgentMetrics
from deviceplugin.nodepods import NodePods
from deviceplugin.nvml.health import HealthState
from deviceplugin.nvml.leaving import leaving_a_hanging_driver
from deviceplugin.nvml.numa import numa_from_sysfs
from deviceplugin.nvml.real import RealNvml
from deviceplugin.nvml.watch import GpuWatch
from deviceplugin.plugin import DevicePlugin, Streams
from deviceplugin.podresources import PodResources
from deviceplugin.podsapi import PodsApi
from deviceplugin.publish import Facts, Publisher
from deviceplugin.registration import Place, Plugin, Registrar, SocketNames
from deviceplugin.settings import Settings
from deviceplugin.storedpods import StoredPods

BAD_SETTINGS = 2
VERSION = "0.1.0"


def main() -> int:
    """Run until SIGTERM; the exit code."""
    try:
        settings = load(Settings, os.environ)
        logs.configure(level=settings.log_level, style=settings.log_style)
        return run(settings, os.environ, SystemClock())
    except (SettingsError, BadConnectionError, ServeError) as error:
        sys.stderr.write(f"{error}\n")
        return BAD_SETTINGS


def run(settings: Settings, environ: Mapping[str, str], clock: Clock) -> int:
    """Build the agent and run it.

    Raises:
        BadConnectionError: the API server's address or token is missing.
        ServeError: the probes' address is taken.
    """
    registry = new_registry()
    metrics = AgentMetrics(registry)
    started = int(clock.now().timestamp() * 1000)
    instance = settings.instance or f"pid{os.getpid()}"
    kube = _kube(settings, environ, clock)
    board = Board()
    sources = _sources(settings, board, kube, clock)
    handout = Handout(
        board, settings.strategy, _folders(settings), record=sources.record, metrics=metrics, clock=clock
    )
    watch = _watch(settings, handout, clock)
    registrar = Registrar(
        Place(
            folder=settings.device_plugins,
            resource=names.GPU_RESOURCE,
            names=SocketNames(instance, started),
        ),
        _plugin(settings, sources, metrics, clock=clock),
        handout.has_devices,
        metrics=metrics,
        clock=clock,
    )
    facts = Facts(board=board, record=sources.record, pods=sources.pods.at_once)
    publisher = Publisher(kube, settings.node_name, facts, metrics=metrics, clock=clock)
    lease = LeaseRenewer(
        kube,
        clock,
        name=names.node_lease(settings.node_name),
        holder=f"{instance}-{started}",
        namespace=settings.namespace,
    )
    ready = _readiness(board, watch, registrar, publisher)
    _measure(registry, watch, lease)
    server = serve(Probes(registry, ready=ready), settings.host, settings.port)

    process = Process(names.NODE_AGENT, clock)
    process.thread("nvml", leaving_a_hanging_driver(watch.run, clock))
    process.thread("handout", partial(handout.run, silent_for=watch.silent_for))
    process.thread("registration", registrar.run)
    process.thread("publisher", publisher.run)
    process.thread("lease", lease.run)
    process.closing("probes", server.close)
    process.closing("goodbye", lease.say_goodbye)
    return process.run()


def _watch(settings: Settings, handout: Handout, clock: Clock) -> GpuWatch:
    return GpuWatch(
        RealNvml(settings.nvml_library),
        numa_from_sysfs(settings.sys_root),
        handout.take,
        clock=clock,
        health=HealthState(settings.quiet_seconds),
    )


def _sources(settings: Settings, board: Board, kube: Kube, clock: Clock) -> Sources:
    return Sources(
        resource=names.GPU_RESOURCE,
        board=board,
        record=CheckpointFile(settings.device_plugins, names.GPU_RESOURCE),
        pods=NodePods(
            PodsApi(settings.pods_api_socket, clock),
            PodResources(settings.pod_resources_socket),
            StoredPods(kube, settings.node_name),
        ),
    )


def _plugin(settings: Settings, sources: Sources, metrics: AgentMetrics, *, clock: Clock) -> Plugin:
    admission = Admission(sources, metrics=metrics, clock=clock)

    def plugin(streams: Streams) -> DevicePlugin:
        return DevicePlugin(admission, sources.board, streams, strategy=settings.strategy, clock=clock)

    return plugin


def _kube(settings: Settings, environ: Mapping[str, str], clock: Clock) -> Kube:
    connection = in_cluster(
        clock,
        environ,
        server=settings.kube_server,
        ca_file=settings.kube_ca_file,
        token_file=settings.kube_token_file,
    )
    return KubeClient(connection, clock, user_agent=f"{names.NODE_AGENT}/{VERSION}")


def _folders(settings: Settings) -> Folders:
    return Folders(
        cdi=settings.cdi_dir,
        dev_root=settings.dev_root,
        host_dev_root=settings.host_dev_root or settings.dev_root,
        driver_root=settings.driver_root,
        host_driver_root=settings.host_driver_root or settings.driver_root,
    )


def _readiness(board: Board, watch: GpuWatch, registrar: Registrar, publisher: Publisher) -> dict[str, Check]:
    def gpus() -> str | None:
        if watch.silent_for() >= LONGEST_SILENCE:
            return SILENT
        return board.now.problem if board.now.reported else "The driver has not answered yet."

    return {
        "gpus": gpus,
        "kubelet": lambda: registrar.problem if board.now.devices else None,
        "node": lambda: publisher.problem,
    }


def _measure(registry: CollectorRegistry, watch: GpuWatch, lease: LeaseRenewer) -> None:
    measured(
        registry,
        "agent_driver_silence_seconds",
        "Seconds since the driver last answered: large means that it hangs.",
        watch.silent_for,
    )
    measured(registry, "agent_lease_age_seconds", "Seconds since we last renewed our Lease.", lease.age)


if __name__ == "__main__":
    sys.exit(main())
