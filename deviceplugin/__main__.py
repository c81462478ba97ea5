"""The node agent: finds the node's GPUs, serves them to the kubelet, and publishes them on the Node.

``python -m deviceplugin`` runs it; with the argument ``doctor`` it only reports what is wrong. Settings are
in ``deviceplugin/settings.py``. This is the composition root: adapters are chosen only here. Exit code 2
means that the settings cannot be used, exit code 1 from the doctor that something is wrong.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry

from cluster import names
from cluster.kube.access_review import may_i
from cluster.kube.client import KubeClient
from cluster.kube.connection import BadConnectionError
from cluster.kube.events import EventRecorder
from cluster.kube.in_cluster import configured
from cluster.kube.interface import Kube
from cluster.kube.node_lease import LeaseRenewer
from cluster.kube.reflector import Reflector
from cluster.kube.resources import NODES, PODS
from cluster.objects.device_usage import NodeUsage
from cluster.objects.inventory import Device
from cluster.objects.nodes import Node
from cluster.process import logs
from cluster.process.clock import Clock, SystemClock
from cluster.process.lifecycle import Process
from cluster.process.malloc import use_one_malloc_arena
from cluster.process.metrics import measured, new_registry
from cluster.process.probes import Check, Probes, ServeError, serve
from cluster.process.settings import SettingsError, load
from cluster.version import VERSION
from deviceplugin.allocation.mig_packing import DevicePick, by_parts
from deviceplugin.allocator import AllocatorSources
from deviceplugin.beside.choice import Change, OwnNode
from deviceplugin.beside.role import Devices, Role
from deviceplugin.composition import claims_in_use, examined, holdings, role_of
from deviceplugin.device_cache import DeviceCache
from deviceplugin.doctor import Tools, examine, report
from deviceplugin.injection.driver import library_under
from deviceplugin.injection.mps_daemons import MpsDaemons
from deviceplugin.kubelet.apiserver_pods import ApiServerPods
from deviceplugin.kubelet.bound_pods import BoundPods
from deviceplugin.kubelet.bound_pods_watch import BoundPodsWatch
from deviceplugin.kubelet.checkpoint import CheckpointFile
from deviceplugin.kubelet.pod_resources import PodResources
from deviceplugin.kubelet.pod_source import PodSource
from deviceplugin.kubelet.pods_api import PodsApi
from deviceplugin.kubelet.registration import SocketNames
from deviceplugin.linked_gpus import Linked
from deviceplugin.metrics import AgentMetrics
from deviceplugin.node.device_orders import DeviceOrdersHandler
from deviceplugin.node.given_by import GivenBy
from deviceplugin.node.gpushare_status import GpushareStatus
from deviceplugin.node.label_source import Labelling
from deviceplugin.node.label_writer import LabelWriter
from deviceplugin.nvml.call_deadline import DeadlineNvml
from deviceplugin.nvml.fault_file import FaultFile
from deviceplugin.nvml.health import HealthState
from deviceplugin.nvml.hung_driver import abandoning_a_hung_driver
from deviceplugin.nvml.interface import Nvml
from deviceplugin.nvml.numa import numa_from_sysfs
from deviceplugin.nvml.real import RealNvml
from deviceplugin.nvml.watch import GpuWatch, NvmlReport
from deviceplugin.preparation import UNRESPONSIVE, UNRESPONSIVE_AFTER
from deviceplugin.process.graceful_shutdown import GracefulShutdown
from deviceplugin.process.log_writer import AsyncLogStream
from deviceplugin.process.loop_watchdog import WatchedClock, alive
from deviceplugin.publish import (
    GpuEventReporter,
    NodeProblemReporter,
    Publisher,
    PublisherSources,
    SharingModeReporter,
)
from deviceplugin.settings import Settings
from deviceplugin.usage.holder_source import HolderSource
from deviceplugin.usage.holders_page import HoldersPage
from deviceplugin.usage.monitor import Options, UsageMonitor
from deviceplugin.usage.overuse_events import OveruseReporter
from deviceplugin.usage.squatter_events import SquatterReporter
from deviceplugin.usage.usage_metrics import UsageMetrics

BAD_SETTINGS = 2


def main() -> int:
    """Run until SIGTERM; return the exit code."""
    use_one_malloc_arena()
    try:
        settings = load(Settings, os.environ)
        with AsyncLogStream(sys.stderr) as lines:
            logs.configure(level=settings.log_level, style=settings.log_style, stream=lines)
            if sys.argv[1:] == ["doctor"]:
                return diagnose(settings, os.environ, SystemClock())
            return build(settings, os.environ, SystemClock()).run()
    except (SettingsError, BadConnectionError, ServeError) as error:
        sys.stderr.write(f"{error}\n")
        return BAD_SETTINGS


def diagnose(settings: Settings, environ: Mapping[str, str], clock: Clock) -> int:
    """Report what is wrong; return the exit code.

    Raises:
        BadConnectionError: the API server's address or token is missing.
    """
    kube = _kube(settings, environ, clock)
    tools = Tools(
        nvml=RealNvml(_library(settings)),
        node=lambda: kube.get(NODES, settings.node_name),
        may=partial(may_i, kube),
        claims=examined(settings, kube),
    )
    text, is_well = report(examine(settings, tools))
    sys.stdout.write(text)
    return 0 if is_well else 1


def build(
    settings: Settings, environ: Mapping[str, str], clock: Clock, registry: CollectorRegistry | None = None
) -> Process:
    """Build the agent with its metrics in ``registry``: its probes are served, its threads are not started.

    Raises:
        BadConnectionError: the API server's address or token is missing.
        ServeError: the probes' address is taken.
    """
    registry = registry or new_registry()
    metrics = AgentMetrics(registry)
    started = int(clock.now().timestamp() * 1000)
    instance = settings.instance or f"pid{os.getpid()}"
    kube = _kube(settings, environ, clock)
    process = Process(names.NODE_AGENT, clock)
    device_cache = DeviceCache()
    bound = BoundPods(clock)
    linked = Linked()
    labelling = Labelling(settings.mig_strategy, settings.sys_root, on=settings.node_labels)
    sources = _sources(settings, device_cache, kube, bound, pick=linked.pick, clock=clock)
    rounds = {name: WatchedClock(name, clock) for name in ("preparation", "resources", "publisher")}
    sockets = SocketNames(instance, started)
    role = role_of(settings, kube, sources, sockets, metrics=metrics, rounds=rounds, clock=clock)
    nvml = DeadlineNvml(RealNvml(_library(settings)), clock, settings.nvml_deadline_seconds)
    recorder = EventRecorder(kube, clock, component=names.NODE_AGENT, registry=registry)
    measurer = _measurer(settings, sources, recorder, registry, as_reported=role.as_reported, clock=clock)
    report = _each(linked.update, labelling.update, role.devices.update)
    watch = _watch(settings, nvml, report, measurer, clock=clock)
    change = _change(settings, role, sources, process, kube=kube, clock=clock)
    seen = (role.see, change.see)
    orders, following = _orders(settings, role.devices, watch, seen, kube=kube, clock=clock)
    observe = _until_followed(orders, following, measurer)
    label = _labels(settings, kube, role, LabelWriter(kube, lambda: labelling.wanted, clock), clock=clock)
    facts = _facts(sources, role, recorder, observe=observe, label=label, waits=lambda: change.waits)
    publisher = Publisher(kube, settings.node_name, facts, metrics=metrics, clock=rounds["publisher"])
    lease = _lease(settings, kube, clock, role=role, monitor=measurer, holder=f"{instance}-{started}")
    ready = {**_readiness(device_cache, watch, role, publisher), "pods": role.pods_problem}
    _measure(registry, watch, lease, measurer=measurer, role=role)
    stuck = {"loops": alive([rounds[role.rounds[0]]])}
    loops = alive(rounds[name] for name in role.rounds)
    healthy = {"loops": loops, "gpus": ready["gpus"], "kubelet": ready["kubelet"]}
    page = HoldersPage(Probes(registry, alive=stuck, healthy=healthy, ready=ready), measurer.snapshot)
    server = serve(page, settings.host, settings.port)

    last = GracefulShutdown(lease.release_lease, clock)
    process.thread("nvml", abandoning_a_hung_driver(watch.run, clock, nvml.abandon_overdue))
    process.thread("preparation", partial(role.devices.run, unresponsive_for=watch.unresponsive_for))
    role.serve(process, last)
    follow_pods = _bound_pods(settings, sources.pods, bound, role, kube=kube, clock=clock).run
    process.thread("pods", last.body(follow_pods))
    process.thread("orders", following.run)
    process.thread("publisher", publisher.run)
    process.thread("measurer", measurer.run)
    process.thread("events", recorder.run)
    process.thread("lease", lease.run)
    process.closing("probes", server.close)
    process.closing("release", last.leave)
    return process


def _library(settings: Settings) -> Path | None:
    return settings.nvml_library or library_under(settings.driver_root)


def _measurer(
    settings: Settings,
    sources: AllocatorSources,
    recorder: EventRecorder,
    registry: CollectorRegistry,
    *,
    as_reported: Callable[[NodeUsage], NodeUsage],
    clock: Clock,
) -> UsageMonitor:
    options = Options(
        as_reported=as_reported,
        proc=settings.proc_root,
        tolerated=frozenset(settings.tolerated_processes),
        of_daemons=MpsDaemons(settings.mps_root, clock).pod,
        report_every=settings.usage_report_seconds,
    )
    holder_source = HolderSource(
        sources.device_cache,
        sources.checkpoint,
        sources.pods.at_once,
        claims_in_use(settings),
        all_pods=sources.pods.all_pods,
    )
    metrics = UsageMetrics(registry, include_users=settings.metrics_include_users)
    return UsageMonitor(
        holder_source.snapshot,
        metrics,
        SquatterReporter(recorder),
        overuse=OveruseReporter(recorder),
        all_pods=sources.pods.all_pods,
        options=options,
        clock=clock,
    )


def _each(*takers: Callable[[NvmlReport], None]) -> Callable[[NvmlReport], None]:
    """A function that calls each of these in turn; the last one updates the kubelet's list."""

    def update(report: NvmlReport) -> None:
        for taker in takers:
            taker(report)

    return update


def _watch(
    settings: Settings,
    nvml: Nvml,
    report: Callable[[NvmlReport], None],
    measurer: UsageMonitor,
    *,
    clock: Clock,
) -> GpuWatch:
    return GpuWatch(
        nvml,
        numa_from_sysfs(settings.sys_root),
        report,
        clock=clock,
        health=HealthState(settings.recovery_seconds, settings.xid_policy),
        patient=settings.on_missing_gpus == "wait",
        fault_store=FaultFile(
            settings.device_plugins, proc_root=settings.proc_root, sys_root=settings.sys_root
        ),
        measured=measurer.update,
    )


def _orders(
    settings: Settings,
    devices: Devices,
    watch: GpuWatch,
    seen_by: Iterable[Callable[[Node], None]],
    *,
    kube: Kube,
    clock: Clock,
) -> tuple[DeviceOrdersHandler, Reflector[Node]]:
    orders = DeviceOrdersHandler(devices.cordon, watch.clear, devices.share)
    mine = f"metadata.name={settings.node_name}"
    return orders, Reflector(kube, NODES, OwnNode(orders, *seen_by), clock, field_selector=mine)


def _change(
    settings: Settings,
    role: Role,
    sources: AllocatorSources,
    process: Process,
    *,
    kube: Kube,
    clock: Clock,
) -> Change:
    """Add the thread that ends the process when the node is to give out its GPUs in another way, and may."""
    held = holdings(settings, sources, kube).held
    change = Change(role.way, settings.device_plugin, held, end=process.end, clock=clock)
    process.thread("change", change.run)
    return change


def _facts(
    sources: AllocatorSources,
    role: Role,
    recorder: EventRecorder,
    *,
    observe: Callable[[Node], None],
    label: Callable[[Node], Node],
    waits: Callable[[], str | None],
) -> PublisherSources:
    return PublisherSources(
        device_cache=role.shown,
        checkpoint=sources.checkpoint,
        pods=role.compared_pods,
        observe=observe,
        label=label,
        report=_events(recorder, role, waits),
    )


def _labels(
    settings: Settings, kube: Kube, role: Role, writer: LabelWriter, *, clock: Clock
) -> Callable[[Node], Node]:
    given_by = GivenBy(kube, role.whose, clock)
    if settings.sharing_gpushare_status == "none":
        return lambda node: writer.write(given_by.write(node))
    status = GpushareStatus(kube, lambda: role.shown.now.devices, settings.sharing_gpushare_status, clock)
    return lambda node: status.write(writer.write(given_by.write(node)))


def _events(
    recorder: EventRecorder, role: Role, waits: Callable[[], str | None]
) -> Callable[[Node, tuple[Device, ...]], None]:
    gpus, problems = GpuEventReporter(recorder), NodeProblemReporter(recorder)
    modes = SharingModeReporter(recorder)

    def report(node: Node, devices: tuple[Device, ...]) -> None:
        gpus.report(node, devices)
        modes.report(node, devices)
        problems.report(node, pods=role.lasting_problem(), other_plugin=role.other_plugin(), waits=waits())

    return report


def _lease(
    settings: Settings,
    kube: Kube,
    clock: Clock,
    *,
    role: Role,
    monitor: UsageMonitor,
    holder: str,
) -> LeaseRenewer:
    return LeaseRenewer(
        kube,
        clock,
        name=names.node_lease(settings.node_name),
        holder=holder,
        namespace=settings.namespace,
        annotations=monitor.annotations,
        serves=role.serves,
        node=settings.node_name,
    )


def _until_followed(
    orders: DeviceOrdersHandler, following: Reflector[Node], measurer: UsageMonitor
) -> Callable[[Node], None]:
    """Apply the cordons of the first Node read: a starting agent publishes no cordoned GPU as healthy."""

    def observe(node: Node) -> None:
        measurer.observe(node)
        if not following.is_synced:
            orders.upsert(node)

    return observe


def _bound_pods(
    settings: Settings,
    pods: PodSource,
    bound: BoundPods,
    role: Role,
    *,
    kube: Kube,
    clock: Clock,
) -> BoundPodsWatch:
    mine = f"spec.nodeName={settings.node_name}"
    watch = Reflector(kube, PODS, bound, clock, field_selector=mine)

    def is_needed() -> bool | None:
        return pods.needs_watch if role.registered.is_registered else None

    return BoundPodsWatch(watch.run, is_needed, clock)


def _sources(
    settings: Settings,
    device_cache: DeviceCache,
    kube: Kube,
    bound: BoundPods,
    *,
    pick: DevicePick,
    clock: Clock,
) -> AllocatorSources:
    return AllocatorSources(
        resource=names.GPU_RESOURCE,
        device_cache=device_cache,
        checkpoint=CheckpointFile(settings.device_plugins, names.GPU_RESOURCE),
        pods=PodSource(
            PodsApi(settings.pods_api_socket, clock),
            PodResources(settings.pod_resources_socket),
            ApiServerPods(kube, settings.node_name),
            bound,
        ),
        pick=by_parts(settings.mig_packing, pick),
    )


def _kube(settings: Settings, environ: Mapping[str, str], clock: Clock) -> Kube:
    connection = configured(settings, clock, environ)
    return KubeClient(connection, clock, user_agent=names.user_agent(names.NODE_AGENT, VERSION))


def _readiness(
    device_cache: DeviceCache, watch: GpuWatch, role: Role, publisher: Publisher
) -> dict[str, Check]:
    def gpus() -> str | None:
        if watch.unresponsive_for() >= UNRESPONSIVE_AFTER:
            return UNRESPONSIVE
        return device_cache.now.problem if device_cache.now.reported else "The driver has not answered yet."

    return {
        "gpus": gpus,
        "kubelet": lambda: role.registered.problem,
        "node": lambda: publisher.problem,
    }


def _measure(
    registry: CollectorRegistry, watch: GpuWatch, lease: LeaseRenewer, *, measurer: UsageMonitor, role: Role
) -> None:
    measured(
        registry,
        "agent_driver_unresponsive_seconds",
        "Seconds since the driver last answered; a large number means that it hangs.",
        watch.unresponsive_for,
    )
    measured(
        registry, "agent_measurement_age_seconds", "Seconds since the GPUs were last measured.", measurer.age
    )
    measured(registry, "agent_lease_age_seconds", "Seconds since the agent renewed its Lease.", lease.age)
    known = "1 while the agent can tell which pod is being admitted; otherwise the node gets no pods."
    measured(registry, "agent_pods_known", known, lambda: float(role.pods_problem() is None))


if __name__ == "__main__":
    sys.exit(main())
