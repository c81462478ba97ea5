"""The node agent: finds the node's GPUs, hands them to the kubelet, and says what there is.

``python -m deviceplugin``, and with the word ``doctor`` only what is wrong; settings in
``deviceplugin/settings.py``. The composition root: adapters are chosen here and nowhere else. Exit code 2
means settings that cannot be used, 1 from the doctor that something is wrong.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry

from cluster import names
from cluster.kube.access import may_i
from cluster.kube.client import KubeClient
from cluster.kube.connection import BadConnectionError
from cluster.kube.events import EventRecorder
from cluster.kube.incluster import configured
from cluster.kube.lease import LeaseRenewer
from cluster.kube.port import Kube
from cluster.kube.reflector import Reflector
from cluster.kube.resources import NODES, PODS
from cluster.objects.nodes import Node
from cluster.runtime import logs
from cluster.runtime.arenas import one_arena
from cluster.runtime.clock import Clock, SystemClock
from cluster.runtime.metrics import measured, new_registry
from cluster.runtime.probes import Check, Probes, ServeError, serve
from cluster.runtime.process import Process
from cluster.runtime.settings import SettingsError, load
from cluster.version import VERSION
from deviceplugin.admission import Admission, Sources
from deviceplugin.board import Board
from deviceplugin.bound.boundpods import BoundPods
from deviceplugin.bound.following import Following
from deviceplugin.checkpoint import CheckpointFile
from deviceplugin.doctor import Tools, examine, told
from deviceplugin.driver import library_under
from deviceplugin.handout import LONGEST_SILENCE, SILENT, Folders, Handout
from deviceplugin.holders.looking import Looker
from deviceplugin.holders.page import HoldersPage
from deviceplugin.hostcdi.folders import HostFolders
from deviceplugin.labels.labelling import Labelling
from deviceplugin.labels.writing import LabelWriter
from deviceplugin.lastserved import LastServed
from deviceplugin.links.linked import Linked
from deviceplugin.measure import Measurer, Options, SquatterTeller, UseMetrics
from deviceplugin.metrics import AgentMetrics
from deviceplugin.mig.packing import DevicePick, by_parts
from deviceplugin.nodepods import NodePods
from deviceplugin.nvml.guard import GuardedNvml
from deviceplugin.nvml.health import HealthState
from deviceplugin.nvml.leaving import leaving_a_hanging_driver
from deviceplugin.nvml.numa import numa_from_sysfs
from deviceplugin.nvml.port import Nvml
from deviceplugin.nvml.real import RealNvml
from deviceplugin.nvml.remembered import FaultFile
from deviceplugin.nvml.watch import GpuWatch, Report
from deviceplugin.offer import Way
from deviceplugin.orders import Orders
from deviceplugin.plugin import DevicePlugin
from deviceplugin.podresources import PodResources
from deviceplugin.podsapi import PodsApi
from deviceplugin.publish import Facts, Publisher
from deviceplugin.registration import Place, Registrar, SocketNames
from deviceplugin.resources import Resources
from deviceplugin.settings import Settings
from deviceplugin.steady.aside import Aside
from deviceplugin.steady.loops import Loop, alive
from deviceplugin.storedpods import StoredPods
from deviceplugin.telling import Teller

BAD_SETTINGS = 2


def main() -> int:
    """Run until SIGTERM; the exit code."""
    one_arena()
    try:
        settings = load(Settings, os.environ)
        with Aside(sys.stderr) as lines:
            logs.configure(level=settings.log_level, style=settings.log_style, stream=lines)
            if sys.argv[1:] == ["doctor"]:
                return diagnose(settings, os.environ, SystemClock())
            return build(settings, os.environ, SystemClock()).run()
    except (SettingsError, BadConnectionError, ServeError) as error:
        sys.stderr.write(f"{error}\n")
        return BAD_SETTINGS


def diagnose(settings: Settings, environ: Mapping[str, str], clock: Clock) -> int:
    """Say what is wrong; the exit code.

    Raises:
        BadConnectionError: the API server's address or token is missing.
    """
    kube = _kube(settings, environ, clock)
    tools = Tools(
        nvml=RealNvml(_library(settings)),
        node=lambda: kube.get(NODES, settings.node_name),
        may=partial(may_i, kube),
    )
    text, is_well = told(examine(settings, tools))
    sys.stdout.write(text)
    return 0 if is_well else 1


def build(
    settings: Settings, environ: Mapping[str, str], clock: Clock, registry: CollectorRegistry | None = None
) -> Process:
    """The whole agent, its probes served already, its threads not started; ``registry`` is for its metrics.

    Raises:
        BadConnectionError: the API server's address or token is missing.
        ServeError: the probes' address is taken.
    """
    registry = registry or new_registry()
    metrics = AgentMetrics(registry)
    started = int(clock.now().timestamp() * 1000)
    instance = settings.instance or f"pid{os.getpid()}"
    kube = _kube(settings, environ, clock)
    board = Board()
    bound = BoundPods(clock)
    linked, labelling = Linked(), _labelling(settings)
    sources = _sources(settings, board, kube, bound, pick=linked.pick, clock=clock)
    rounds = {name: Loop(name, clock) for name in ("handout", "resources", "publisher")}
    handout = _handout(settings, sources, metrics, clock=rounds["handout"])
    nvml = GuardedNvml(RealNvml(_library(settings)), clock, settings.nvml_deadline_seconds)
    recorder = EventRecorder(kube, clock, component=names.NODE_AGENT, registry=registry)
    measurer = _measurer(settings, sources, recorder, registry, clock=clock)
    report = _each(linked.take, labelling.take, handout.take)
    watch = _watch(settings, nvml, report, measurer, clock=clock)
    registrations = _registrations(settings, sources, SocketNames(instance, started), metrics, clock=clock)
    resources = Resources(board, registrations, rounds["resources"])
    orders, following = _orders(settings, handout, watch, kube=kube, clock=clock)
    facts = Facts(
        board=board,
        record=sources.record,
        pods=sources.pods.at_once,
        hear=_until_followed(orders, following, measurer),
        label=LabelWriter(kube, lambda: labelling.wanted, clock).write,
        tell=Teller(recorder).tell,
    )
    publisher = Publisher(kube, settings.node_name, facts, metrics=metrics, clock=rounds["publisher"])
    lease = _lease(settings, kube, clock, serves=resources, beside=measurer, holder=f"{instance}-{started}")
    ready = _readiness(board, watch, resources, publisher)
    _measure(registry, watch, lease, measurer)
    stuck = {"loops": alive([rounds["resources"]])}
    healthy = {"loops": alive(rounds.values()), "gpus": ready["gpus"], "kubelet": ready["kubelet"]}
    page = HoldersPage(Probes(registry, alive=stuck, healthy=healthy, ready=ready), measurer.look)
    server = serve(page, settings.host, settings.port)

    last = LastServed(lease.say_goodbye, clock)
    process = Process(names.NODE_AGENT, clock)
    process.thread("nvml", leaving_a_hanging_driver(watch.run, clock, nvml.abandon_overdue))
    process.thread("handout", partial(handout.run, silent_for=watch.silent_for))
    process.thread("registration", last.body(resources.run))
    follow_pods = _bound_pods(settings, sources.pods, bound, resources, kube=kube, clock=clock).run
    process.thread("pods", last.body(follow_pods))
    process.thread("orders", following.run)
    process.thread("publisher", publisher.run)
    process.thread("measurer", measurer.run)
    process.thread("events", recorder.run)
    process.thread("lease", lease.run)
    process.closing("probes", server.close)
    process.closing("goodbye", last.leave)
    return process


def _library(settings: Settings) -> Path | None:
    return settings.nvml_library or library_under(settings.driver_root)


def _handout(settings: Settings, sources: Sources, metrics: AgentMetrics, *, clock: Clock) -> Handout:
    return Handout(
        sources.board,
        Way(strategy=settings.strategy, mig=settings.mig_strategy),
        _folders(settings),
        record=sources.record,
        pods=sources.pods.at_once,
        host=HostFolders(settings.host_cdi_dirs),
        metrics=metrics,
        clock=clock,
    )


def _measurer(
    settings: Settings,
    sources: Sources,
    recorder: EventRecorder,
    registry: CollectorRegistry,
    *,
    clock: Clock,
) -> Measurer:
    options = Options(
        proc=settings.proc_root,
        tolerated=frozenset(settings.tolerated_processes),
        tell_every=settings.tell_use_seconds,
    )
    looker = Looker(sources.board, sources.record, sources.pods.at_once)
    metrics = UseMetrics(registry, name_people=settings.metrics_name_people)
    return Measurer(
        looker.look,
        metrics,
        SquatterTeller(recorder),
        everybody=sources.pods.everybody,
        options=options,
        clock=clock,
    )


def _each(*takers: Callable[[Report], None]) -> Callable[[Report], None]:
    """All of them, one after the other: what the kubelet is told comes last."""

    def take(report: Report) -> None:
        for taker in takers:
            taker(report)

    return take


def _watch(
    settings: Settings, nvml: Nvml, report: Callable[[Report], None], measurer: Measurer, *, clock: Clock
) -> GpuWatch:
    return GpuWatch(
        nvml,
        numa_from_sysfs(settings.sys_root),
        report,
        clock=clock,
        health=HealthState(settings.quiet_seconds, settings.heeded),
        patient=settings.without_gpus == "wait",
        memory=FaultFile(settings.device_plugins, proc_root=settings.proc_root, sys_root=settings.sys_root),
        measured=measurer.take,
    )


def _orders(
    settings: Settings, handout: Handout, watch: GpuWatch, *, kube: Kube, clock: Clock
) -> tuple[Orders, Reflector[Node]]:
    orders = Orders(handout.cordon, watch.clear)
    mine = f"metadata.name={settings.node_name}"
    return orders, Reflector(kube, NODES, orders, clock, field_selector=mine)


def _lease(
    settings: Settings, kube: Kube, clock: Clock, *, serves: Resources, beside: Measurer, holder: str
) -> LeaseRenewer:
    return LeaseRenewer(
        kube,
        clock,
        name=names.node_lease(settings.node_name),
        holder=holder,
        namespace=settings.namespace,
        beside=beside.beside,
        serves=lambda: serves.is_registered,
        node=settings.node_name,
    )


def _until_followed(orders: Orders, following: Reflector[Node], measurer: Measurer) -> Callable[[Node], None]:
    """Before its own news come: what is cordoned is never published as healthy by an agent that starts."""

    def hear(node: Node) -> None:
        measurer.hear(node)
        if not following.is_synced:
            orders.upsert(node)

    return hear


def _bound_pods(
    settings: Settings, pods: NodePods, bound: BoundPods, resources: Resources, *, kube: Kube, clock: Clock
) -> Following:
    mine = f"spec.nodeName={settings.node_name}"
    watch = Reflector(kube, PODS, bound, clock, field_selector=mine)
    return Following(watch.run, lambda: resources.is_registered and pods.are_not_told, clock)


def _labelling(settings: Settings) -> Labelling:
    return Labelling(settings.mig_strategy, settings.sys_root, on=settings.node_labels)


def _sources(
    settings: Settings, board: Board, kube: Kube, bound: BoundPods, *, pick: DevicePick, clock: Clock
) -> Sources:
    return Sources(
        resource=names.GPU_RESOURCE,
        board=board,
        record=CheckpointFile(settings.device_plugins, names.GPU_RESOURCE),
        pods=NodePods(
            PodsApi(settings.pods_api_socket, clock),
            PodResources(settings.pod_resources_socket),
            StoredPods(kube, settings.node_name),
            bound,
        ),
        pick=by_parts(settings.mig_packing, pick),
    )


def _registrations(
    settings: Settings, sources: Sources, sockets: SocketNames, metrics: AgentMetrics, *, clock: Clock
) -> Callable[[str], Registrar]:
    def registration(resource: str) -> Registrar:
        record = CheckpointFile(settings.device_plugins, resource)
        ours = replace(sources, resource=resource, record=record)
        admission = Admission(ours, metrics=metrics, clock=clock)
        plugin = partial(
            DevicePlugin,
            admission,
            sources.board,
            resource=resource,
            strategy=settings.strategy,
            clock=clock,
        )
        place = Place(folder=settings.device_plugins, resource=resource, names=sockets)
        return Registrar(place, plugin, metrics=metrics, clock=clock)

    return registration


def _kube(settings: Settings, environ: Mapping[str, str], clock: Clock) -> Kube:
    connection = configured(settings, clock, environ)
    return KubeClient(connection, clock, user_agent=names.user_agent(names.NODE_AGENT, VERSION))


def _folders(settings: Settings) -> Folders:
    return Folders(
        cdi=settings.cdi_dir,
        dev_root=settings.dev_root,
        host_dev_root=settings.host_dev_root or settings.dev_root,
        driver_root=settings.driver_root,
        host_driver_root=settings.host_driver_root or settings.driver_root,
        capabilities=settings.mig_capabilities,
    )


def _readiness(board: Board, watch: GpuWatch, resources: Resources, publisher: Publisher) -> dict[str, Check]:
    def gpus() -> str | None:
        if watch.silent_for() >= LONGEST_SILENCE:
            return SILENT
        return board.now.problem if board.now.reported else "The driver has not answered yet."

    return {
        "gpus": gpus,
        "kubelet": lambda: resources.problem,
        "node": lambda: publisher.problem,
    }


def _measure(registry: CollectorRegistry, watch: GpuWatch, lease: LeaseRenewer, measurer: Measurer) -> None:
    measured(
        registry,
        "agent_driver_silence_seconds",
        "Seconds since the driver last answered: many mean that it hangs.",
        watch.silent_for,
    )
    measured(
        registry, "agent_measurement_age_seconds", "Seconds since the GPUs were last measured.", measurer.age
    )
    measured(registry, "agent_lease_age_seconds", "Seconds since the agent renewed its Lease.", lease.age)


if __name__ == "__main__":
    sys.exit(main())
