"""Makes what NVML reports ready to be handed out: device nodes, the CDI specification, the board.

The thread that watches NVML calls it with every report. What depends on the machine's files (nodes that
appear late, a specification that somebody deletes) is looked at again now and then, in a thread of its own,
which also notices that the driver hangs and nothing can be reported. The kubelet's calls read the board.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import structlog

from cluster.objects.inventory import Device
from cluster.runtime.clock import Clock
from deviceplugin import cdi, driver
from deviceplugin.admission import Record
from deviceplugin.allocate import Nodes, Strategy
from deviceplugin.board import Board, Devices
from deviceplugin.checkpoint import CheckpointError
from deviceplugin.metrics import AgentMetrics
from deviceplugin.nvml.inventory import NodeDevice
from deviceplugin.nvml.watch import Report
from deviceplugin.offer import offered, with_absent

LOOK_AGAIN_EVERY = 10.0
"""Seconds."""
LONGEST_SILENCE = 60.0
"""Seconds after which a driver that does not answer has its GPUs called unhealthy."""
SILENT = f"The driver has not answered for {LONGEST_SILENCE:.0f} s"
"""Reason of all GPUs then. No growing number: each change of the text is written to the Node."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Folders:
    """Where devices and driver are, as this process and as the container runtime sees them."""

    cdi: Path = Path("/var/run/cdi")
    dev_root: Path = Path("/dev")
    host_dev_root: Path = Path("/dev")
    driver_root: Path = Path("/")
    host_driver_root: Path = Path("/")


def silenced(last: Report | None) -> Report:
    """What is to be thought of the last report (None: there was none) while the driver hangs."""
    if last is None:
        return Report((), SILENT)
    sick = tuple(d.sick(SILENT) if d.published.is_healthy else d for d in last.devices)
    return replace(last, devices=sick, problem=SILENT)


class Handout:
    """Receives the reports of the NVML thread."""

    def __init__(
        self,
        board: Board,
        strategy: Strategy,
        folders: Folders,
        *,
        record: Record,
        metrics: AgentMetrics,
        clock: Clock,
    ) -> None:
        self._board = board
        self._strategy = strategy
        self._folders = folders
        self._record = record
        self._metrics = metrics
        self._clock = clock
        self._lock = threading.Lock()
        self._last: Report | None = None
        self._cuda_works = True
        self.has_devices = threading.Event()
        """Set as soon as there is something to tell the kubelet; never cleared, as no device is dropped."""

    def take(self, report: Report) -> None:
        """Bring everything in line with a report."""
        with self._lock:
            self._last = report
            self._apply(report)

    def run(self, stop: threading.Event, silent_for: Callable[[], float]) -> None:
        """Look at the machine's files again now and then, until told to stop.

        Args:
            stop: ends it.
            silent_for: seconds since the driver last answered.
        """
        while not self._clock.wait(stop, LOOK_AGAIN_EVERY):
            with self._lock:
                if silent_for() >= LONGEST_SILENCE:
                    self._apply(silenced(self._last))
                elif self._last is not None:
                    self._apply(self._last)

    def _apply(self, report: Report) -> None:
        nodes = self._nodes(report.devices)
        devices = offered(report.devices, nodes, self._strategy)
        devices = with_absent(devices, self._held(), self._board.now.devices)
        if self._strategy is Strategy.CDI and nodes.of_device:
            devices = self._with_cdi(devices, nodes)
        if self._strategy is not Strategy.ENVIRONMENT and nodes.of_device:
            self._look_for_unified_memory(nodes)
        self._count(devices)
        if self._board.put(Devices(devices, nodes, report.problem, reported=True)):
            self._tell(devices, report.problem)
        if devices:
            self.has_devices.set()

    def _held(self) -> frozenset[str]:
        """Devices in the kubelet's record; none where it cannot be read."""
        try:
            return self._record.read().devices
        except CheckpointError:
            return frozenset()

    def _nodes(self, devices: Sequence[NodeDevice]) -> Nodes:
        minors = {
            device.uuid: device.minor
            for device in devices
            if device.minor is not None and device.published.parent is None
        }
        return cdi.device_nodes(
            minors, dev_root=self._folders.dev_root, host_dev_root=self._folders.host_dev_root
        )

    def _with_cdi(self, devices: tuple[Device, ...], nodes: Nodes) -> tuple[Device, ...]:
        """The devices after the specification was written; unhealthy where that is impossible."""
        mounts = driver.plan(driver.find(self._folders.driver_root))
        text = cdi.specification(nodes, mounts, driver_root=self._folders.host_driver_root)
        try:
            changed = cdi.write(self._folders.cdi, text)
        except OSError as error:
            reason = f"The CDI specification cannot be written to {self._folders.cdi}: {error}"
            log.error("no CDI specification", sentence=reason)  # noqa: TRY400 - it is a sentence
            return tuple(
                msgspec.structs.replace(device, health="unhealthy", reason=device.reason or reason)
                for device in devices
            )
        if changed:
            log.info("CDI specification written", folder=str(self._folders.cdi), devices=len(nodes.of_device))
            if not mounts:
                log.warning(
                    "no driver files are mounted into containers",
                    sentence=f"No libnvidia-ml.so.<version> was found under {self._folders.driver_root}: "
                    "images must bring the driver's libraries themselves.",
                )
        return devices

    def _look_for_unified_memory(self, nodes: Nodes) -> None:
        """Told once: the GPU is not ill, and the next container after the remedy has the node."""
        before, self._cuda_works = self._cuda_works, cdi.has_unified_memory(nodes)
        if before and not self._cuda_works:
            log.warning(
                "CUDA will not work in containers",
                sentence=f"There is no {self._folders.dev_root / cdi.UNIFIED_MEMORY}: run "
                "`nvidia-modprobe -u -c=0` on this machine. Containers that start afterwards get it.",
            )

    def _count(self, devices: tuple[Device, ...]) -> None:
        healthy = sum(device.is_healthy for device in devices)
        self._metrics.devices.labels("healthy").set(healthy)
        self._metrics.devices.labels("unhealthy").set(len(devices) - healthy)

    def _tell(self, devices: tuple[Device, ...], problem: str | None) -> None:
        if problem:
            log.warning("NVML", sentence=problem, devices=len(devices))
        for device in devices:
            if not device.is_healthy:
                log.warning("unhealthy", device=device.uuid, reason=device.reason)
        log.info("devices", healthy=sum(d.is_healthy for d in devices), known=len(devices))
