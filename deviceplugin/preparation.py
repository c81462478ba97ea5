"""Prepares NVML's devices for containers: device nodes, the CDI specification, the device cache.

The thread that watches NVML calls it with every report. A thread of its own checks the machine's files
regularly (device nodes that appear late, a specification that was deleted), and also notices when the driver
hangs and nothing can be reported. The kubelet's calls read the device cache.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import structlog

from cluster import names
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod, is_terminal, is_terminating
from cluster.objects.slots import physical
from cluster.process.clock import Clock
from deviceplugin.advertised import (
    AdvertisingOptions,
    advertised,
    listed,
    partitioned_of,
    with_absent,
    with_claimed,
    with_closed,
    with_cordons,
)
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.device_cache import AdvertisedDevices, DeviceCache
from deviceplugin.device_nodes import DeviceNodes
from deviceplugin.injection import cdi, driver, ldcache_hook
from deviceplugin.injection.host_cdi_files import HostFolders
from deviceplugin.injection.mig_capabilities import capability_nodes
from deviceplugin.injection.mps_daemons import MpsDaemons
from deviceplugin.injection.share_edits import is_of_mps
from deviceplugin.injection.share_files import ShareFiles
from deviceplugin.injection.strategy import Strategy
from deviceplugin.kubelet.checkpoint import CheckpointError, CheckpointReader
from deviceplugin.metrics import AgentMetrics
from deviceplugin.nvml.inventory import NodeDevice
from deviceplugin.nvml.mig_strategy import MigStrategy
from deviceplugin.nvml.watch import NvmlReport

RECHECK_EVERY = 10.0
"""Seconds between two checks of device nodes and CDI specification."""
HOLDERS_EVERY = 0.5
"""Seconds between two looks at who has the GPUs that can be shared, and so in which form they are offered."""
UNRESPONSIVE_AFTER = 60.0
"""Seconds after which the GPUs of a driver that does not answer become unhealthy."""
UNRESPONSIVE = f"The driver has not answered for {UNRESPONSIVE_AFTER:.0f} s"
"""The reason of all GPUs then. It has no growing number, since each change is written to the Node."""

CORDONED = "cordoned"
"""State of a device that is unhealthy only because an administrator has cordoned it."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Folders:
    """Where devices and driver are, as this process and as the container runtime sees them."""

    cdi: Path = Path("/var/run/cdi")
    dev_root: Path = Path("/dev")
    host_dev_root: Path = Path("/dev")
    driver_root: Path = Path("/")
    host_driver_root: Path = Path("/")
    capabilities: Path = Path("/proc/driver/nvidia/capabilities")

    def mounts(self) -> tuple[driver.Mount, ...]:
        """The driver's files that containers get."""
        return driver.plan(driver.find(self.driver_root))

    def specification(
        self,
        nodes: DeviceNodes,
        mounts: tuple[driver.Mount, ...],
        kind: str = names.CDI_KIND,
        more: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> bytes:
        """The text of a CDI specification with these devices, driver's files, and more of some devices."""
        hooks = ldcache_hook.hooks(mounts, root=self.driver_root, host_root=self.host_driver_root)
        return cdi.specification(
            nodes, mounts, driver_root=self.host_driver_root, hooks=hooks, kind=kind, more=more
        )


def as_unresponsive(last: NvmlReport | None) -> NvmlReport:
    """The report to use while the driver hangs: the last one (None: there was none), with unhealthy GPUs."""
    if last is None:
        return NvmlReport((), UNRESPONSIVE)
    unhealthy = tuple(d.as_unhealthy(UNRESPONSIVE) if d.published.is_healthy else d for d in last.devices)
    return replace(last, devices=unhealthy, problem=UNRESPONSIVE)


@dataclass(frozen=True)
class _Held:
    """Resource -> ids in the kubelet's checkpoint."""

    all: Mapping[str, frozenset[str]]
    staying: Mapping[str, frozenset[str]]
    """Without pods that are being terminated."""
    mps: frozenset[str] | None = None
    """UUIDs of the GPUs that pods share under MPS; None if the pods could not be read."""

    @property
    def devices(self) -> frozenset[str]:
        """UUIDs of all devices in it."""
        return frozenset(physical(device) for ids in self.all.values() for device in ids)


@dataclass(frozen=True)
class _Machine:
    """What its files say, and whether the specification for the container runtime is among them."""

    nodes: DeviceNodes
    problem: str | None = None
    """Why the CDI specification could not be written."""


def _unusable(devices: tuple[Device, ...], reason: str) -> tuple[Device, ...]:
    return tuple(
        msgspec.structs.replace(device, health="unhealthy", reason=device.reason or reason)
        for device in devices
    )


def _healthy(devices: Iterable[Device]) -> frozenset[str]:
    return frozenset(device.uuid for device in devices if device.is_healthy)


def _states(report: NvmlReport, cordoned: Iterable[str]) -> dict[str, str]:
    """UUID -> its state: in the words of ``nvml.health``, or cordoned."""
    return {device.uuid: device.state.value for device in report.devices} | dict.fromkeys(cordoned, CORDONED)


class Preparation:
    """Receives the reports of the NVML thread."""

    def __init__(
        self,
        device_cache: DeviceCache,
        options: AdvertisingOptions,
        folders: Folders,
        *,
        checkpoint: CheckpointReader,
        pods: Callable[[], tuple[Pod, ...] | None] = lambda: None,
        claimed: Callable[[], frozenset[str] | None] = frozenset,
        closed: Callable[[], str | None] = lambda: None,
        host: HostFolders | None = None,
        daemons: MpsDaemons | None = None,
        metrics: AgentMetrics,
        clock: Clock,
    ) -> None:
        self._device_cache = device_cache
        self._options = self._most = options
        self._folders = folders
        self._checkpoint = checkpoint
        self._pods = pods
        self._claimed = claimed
        self._closed = closed
        self._closed_for: str | None = None
        self._host = host or HostFolders(())
        self._daemons = daemons or MpsDaemons(None, clock)
        self._answering = frozenset[str]()
        """GPUs that were last offered under MPS."""
        self._metrics = metrics
        self._clock = clock
        self._lock = threading.Lock()
        self._last: NvmlReport | None = None
        self._shown: NvmlReport | None = None
        self._machine: _Machine | None = None
        """As it was when ``_shown`` was last prepared: who has a GPU changes nothing of it."""
        self._mounts: tuple[driver.Mount, ...] | None = None
        self._driver_version: str | None = None
        """As the driver's files had it when they were last looked for, like ``_mounts``."""
        self._recorded = PodDevices()
        self._offered_with: _Held | None = None
        self._is_tidy = False
        self._cordoned: Mapping[str, str] = {}
        self._cuda_works = True

    def update(self, report: NvmlReport) -> None:
        """Prepare everything for a report's devices."""
        with self._lock:
            self._last = report
            self._apply(report)

    def cordon(self, cordoned: Mapping[str, str]) -> None:
        """Set the devices that new pods do not get: uuid -> by whom and why. Safe from any thread."""
        with self._lock:
            self._cordoned = cordoned
            self._offer()

    def share(self, *, is_wanted: bool) -> None:
        """Set whether GPUs may be shared, as far as the settings allow. Safe from any thread."""
        with self._lock:
            slots = self._most.slots if is_wanted else 0
            if slots != self._options.slots:
                self._options = replace(self._options, slots=slots)
                self._offer()

    def mounts(self) -> tuple[driver.Mount, ...]:
        """The driver's files that containers get, as they were when last looked for: that takes a while."""
        known = self._mounts
        return self._folders.mounts() if known is None else known

    def run(self, stop: threading.Event, unresponsive_for: Callable[[], float]) -> None:
        """Check the machine's files regularly, until the stop event is set.

        Args:
            stop: ends it.
            unresponsive_for: seconds since the driver last answered.
        """
        follows = self._most.slots or self._most.by_claims
        pause = HOLDERS_EVERY if follows else RECHECK_EVERY
        checked = self._clock.monotonic()
        while not self._clock.wait(stop, pause):
            with self._lock:
                now = self._clock.monotonic()
                if follows and now - checked < RECHECK_EVERY:
                    self._follow()
                    continue
                checked = now
                if unresponsive_for() >= UNRESPONSIVE_AFTER:
                    self._apply(as_unresponsive(self._last))
                elif self._last is not None:
                    self._apply(self._last)

    def _follow(self) -> None:
        """Offer the GPUs anew if others hold them than before, or if the node is open or closed now."""
        if self._shown is None:
            return
        if self._most.by_claims:
            if self._closed() != self._closed_for:
                self._offer()
            return
        held = self._held()
        if held.mps is not None:
            self._daemons.want(held.mps)
        if held != self._offered_with or self._mps() != self._answering:
            self._offer()

    def _mps(self) -> frozenset[str]:
        """GPUs that can be shared under MPS: only by CDI does a container get its limits."""
        return self._daemons.answering() if self._options.strategy is Strategy.CDI else frozenset()

    def _apply(self, report: NvmlReport) -> None:
        """Read and write the machine's files, which takes tens of milliseconds, and offer the GPUs."""
        self._shown, self._machine = report, self._look(report)
        self._offer()

    def _look(self, report: NvmlReport) -> _Machine:
        nodes = self._nodes(report.devices)
        with_cdi = self._options.strategy is Strategy.CDI and nodes.of_device
        return _Machine(nodes, self._write_cdi(nodes) if with_cdi else None)

    def _offer(self) -> None:
        """Offer the GPUs that were prepared last."""
        report, machine = self._shown, self._machine
        if report is None or machine is None:
            return
        nodes = machine.nodes
        held = self._offered_with = self._held()
        self._answering = self._mps()
        options = replace(self._options, mps=self._answering)
        devices = advertised(report.devices, nodes, options, held.devices)
        devices = with_absent(devices, held.all, self._device_cache.now.devices)
        if not self._options.by_claims:
            devices = with_claimed(devices, held.all.get(names.CLAIM_RESOURCE, frozenset()))
        if machine.problem is not None:
            devices = _unusable(devices, machine.problem)
        if self._options.strategy is Strategy.CDI and nodes.of_device:
            nodes = self._with_names_of_the_host(nodes, devices)
        if self._options.strategy is not Strategy.ENVIRONMENT and nodes.of_device:
            self._check_unified_memory(nodes)
        healthy = _healthy(devices)
        devices = with_cordons(devices, self._cordoned)
        open_ = _healthy(devices)
        self._closed_for = self._closed()
        devices = with_closed(devices, self._closed_for)
        self._count(devices)
        self._metrics.set_states(devices, _states(report, cordoned := healthy - open_))
        lists = listed(devices, partitioned_of(report.devices, self._options), held.all, held.staying)
        new = AdvertisedDevices(
            devices,
            nodes,
            report.problem,
            cordoned,
            open_ - _healthy(devices),
            lists,
            reported=True,
        )
        if self._device_cache.put(new):
            self._log(devices, report.problem)

    def _held(self) -> _Held:
        """The devices in the kubelet's checkpoint; if that cannot be read, as it was last.

        Pods that have ended stay in the checkpoint until the kubelet next allocates. After GPUs were
        partitioned again, or where they can be shared, it would never allocate if the devices of ended pods
        counted: there the living pods are read.
        """
        try:
            found = self._checkpoint.read()
        except CheckpointError:
            found = PodDevices()
        else:
            self._tidy(found)
        # A damaged or deleted file frees no device: the pods live, and the kubelet still knows them.
        is_lost = not found.uids and bool(self._recorded.uids)
        holdings = self._recorded = self._recorded if is_lost else found
        staying, mps = holdings, None if holdings.uids else frozenset[str]()
        by_pods = self._options.mig is not MigStrategy.NONE or bool(self._most.slots)
        if by_pods or holdings.others or is_lost:
            pods = self._pods() if holdings.uids else None
            if pods is not None:
                living = [pod for pod in pods if not is_terminal(pod)]
                holdings = holdings.of_pods({pod.metadata.uid for pod in living})
                staying = holdings.of_pods({pod.metadata.uid for pod in living if not is_terminating(pod)})
                its = holdings.of_pods({pod.metadata.uid for pod in living if is_of_mps(pod)})
                slots = its.by_resource(names.GPU_RESOURCE).get(names.SHARED_RESOURCE, frozenset())
                mps = frozenset(map(physical, slots))
        claimed = self._claimed()
        if claimed is None:
            claimed = frozenset(device.uuid for device in self._shown.devices) if self._shown else frozenset()
        by_claims = {names.CLAIM_RESOURCE: claimed} if claimed else {}
        return _Held(
            {**holdings.by_resource(names.GPU_RESOURCE), **by_claims},
            {**staying.by_resource(names.GPU_RESOURCE), **by_claims},
            mps,
        )

    def _tidy(self, found: PodDevices) -> None:
        """Delete what an agent before this one has left for slots that no pod has, once."""
        if not self._is_tidy:
            self._is_tidy = True
            held = found.by_resource(names.GPU_RESOURCE).get(names.SHARED_RESOURCE, frozenset())
            ShareFiles(self._folders.cdi).tidy(held)

    def _nodes(self, devices: Sequence[NodeDevice]) -> DeviceNodes:
        own = {device.uuid: wanted for device in devices if (wanted := self._nodes_of(device))}
        return cdi.device_nodes(
            own, dev_root=self._folders.dev_root, host_dev_root=self._folders.host_dev_root
        )

    def _nodes_of(self, device: NodeDevice) -> tuple[str, ...] | None:
        """Names of the device nodes that a device needs; None if the driver does not report them."""
        if device.minor is None or device.gone:
            return None
        whole = (f"nvidia{device.minor}",)
        if device.gpu_instance is None or device.compute_instance is None:
            return whole
        access = capability_nodes(
            self._folders.capabilities, device.minor, device.gpu_instance, device.compute_instance
        )
        return access and whole + access

    def _write_cdi(self, nodes: DeviceNodes) -> str | None:
        """Write the specification; returns why it cannot be written."""
        files = driver.find(self._folders.driver_root)
        mounts = self._mounts = driver.plan(files)
        self._driver_version = driver.driver_version(files)
        try:
            changed = cdi.write(self._folders.cdi, self._folders.specification(nodes, mounts))
        except OSError as error:
            reason = f"The CDI specification cannot be written to {self._folders.cdi}: {error}"
            log.error("the CDI specification could not be written", message=reason)  # noqa: TRY400 - no traceback
            return reason
        if changed:
            log.info("CDI specification written", folder=str(self._folders.cdi), devices=len(nodes.of_device))
            if not mounts:
                log.warning(
                    "no driver files are mounted into containers",
                    message=f"No libnvidia-ml.so.<version> was found under {self._folders.driver_root}: "
                    "images must bring the driver's libraries themselves.",
                )
        return None

    def _with_names_of_the_host(self, nodes: DeviceNodes, devices: Iterable[Device]) -> DeviceNodes:
        """The nodes, with the names that a specification of the host gives to all healthy devices."""
        healthy = {device.uuid for device in devices if device.is_healthy}
        own = {
            uuid: frozenset(node.path for node in its)
            for uuid, its in nodes.of_device.items()
            if uuid in healthy
        }
        return replace(nodes, cdi_names=self._host.read(own, self._driver_version))

    def _check_unified_memory(self, nodes: DeviceNodes) -> None:
        """Log a missing node once. The GPU stays healthy: containers that start after the remedy get it."""
        before, self._cuda_works = self._cuda_works, cdi.has_unified_memory(nodes)
        if before and not self._cuda_works:
            log.warning(
                "CUDA will not work in containers",
                message=f"There is no {self._folders.dev_root / cdi.UNIFIED_MEMORY}: run "
                "`nvidia-modprobe -u -c=0` on this machine. Containers that start afterwards get it.",
            )

    def _count(self, devices: tuple[Device, ...]) -> None:
        healthy = sum(device.is_healthy for device in devices)
        self._metrics.devices.labels("healthy").set(healthy)
        self._metrics.devices.labels("unhealthy").set(len(devices) - healthy)

    def _log(self, devices: tuple[Device, ...], problem: str | None) -> None:
        if problem:
            log.warning("NVML reports a problem", message=problem, devices=len(devices))
        for device in devices:
            if not device.is_healthy:
                log.warning("a device is unhealthy", device=device.uuid, reason=device.reason)
        log.info("devices prepared", healthy=sum(d.is_healthy for d in devices), total=len(devices))
