"""The thread that owns NVML: it finds the GPUs, waits for events, probes, and reports changes.

The node agent gives it a callback and otherwise never calls NVML, so a driver that is slow or hangs stops
only this thread; ``unresponsive_for`` returns for how long. A missing library, driver or GPU is reported
once, with a message, and tried again; the thread ends only when its stop event is set.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from cluster.process.clock import Clock
from deviceplugin.nvml.fault_file import FaultStore, Known, NoFaultStore
from deviceplugin.nvml.health import EventSeen, FaultCleared, HealthState, ProbeAnswered, ProbeFailed
from deviceplugin.nvml.interface import EventKind, EventStream, GpuEvent, GpuUsage, Nvml, NvmlError, Versions
from deviceplugin.nvml.inventory import NodeDevice, physical, read_inventory, with_earlier, with_health
from deviceplugin.nvml.pci_topology import PciTopology


@dataclass(frozen=True, slots=True)
class NvmlReport:
    """All known devices with their health, and the problem of the node as a whole."""

    devices: tuple[NodeDevice, ...]
    problem: str | None = None
    """No library, no driver, no GPU, or a driver that does not respond; None if there is no problem."""
    events_unavailable: tuple[str, ...] = ()
    """One message for each GPU whose events NVML does not report. Such a GPU is still probed."""
    versions: Versions | None = None
    """None: no driver responds."""
    topology_levels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """How far GPUs are from each other (``pci_topology.py``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Periods:
    """The periods of the thread's work, in seconds."""

    wait: float = 0.5
    """The longest wait for one event, and the pause after a wait that failed. An administrator's order to
    clear a GPU is carried out in between."""
    probe: float = 5.0
    """Between two probes of every GPU."""
    measure: float = 10.0
    """Between two measurements of how every GPU is used."""
    retry: float = 10.0
    """Between two attempts to find a library, a driver or a GPU."""
    reread: float = 60.0
    """Between two inventories, to find MIG devices that no event has reported."""
    restart: float = 60.0
    """Between two initialisations while a GPU does not respond: some recover only then."""
    rescan: float = 3600.0
    """Between two initialisations while all respond, to find new GPUs that the driver does not report. It is
    long because events are lost meanwhile, and a driver without persistence mode restarts idle GPUs, which
    takes seconds."""


@dataclass(frozen=True, slots=True)
class UsageReport:
    """How the GPUs that answered were used at one instant."""

    devices: tuple[NodeDevice, ...] = ()
    """All devices that were known then."""
    of: Mapping[str, GpuUsage] = field(default_factory=dict)
    """GPU -> how it was used."""


def _ignore(_report: UsageReport) -> None:
    return


class NoGpusError(Exception):
    """There is no driver or no GPU, and the settings say not to wait for one."""


class GpuWatch:
    """The owner of NVML. ``report`` is called in its thread, first immediately and then at every change."""

    def __init__(
        self,
        nvml: Nvml,
        numa_of: Callable[[str], int | None],
        report: Callable[[NvmlReport], None],
        *,
        clock: Clock,
        periods: Periods | None = None,
        health: HealthState | None = None,
        fault_store: FaultStore | None = None,
        patient: bool = True,
        measured: Callable[[UsageReport], None] = _ignore,
    ) -> None:
        """NVML is not called yet.

        Args:
            nvml: called only by the thread.
            numa_of: PCI address -> NUMA node.
            report: called when something has changed.
            clock: for the periods.
            periods: the periods of the thread's work.
            health: the known faults, and which XIDs count.
            fault_store: keeps the faults that only a reset clears, beyond the end of this process.
            patient: see run.
            measured: called with every measurement, in the thread.
        """
        self._nvml = nvml
        self._numa_of = numa_of
        self._report = report
        self._clock = clock
        self._periods = periods or Periods()
        self._health = health or HealthState()
        self._fault_store = fault_store or NoFaultStore()
        self._patient = patient
        self._measured = measured
        self._measured_at: float | None = None
        self._era: str | None = None
        self._versions: Versions | None = None
        self._pci_topology = PciTopology(nvml)
        self._cleared: deque[tuple[str, str]] = deque()
        self._orders_done: dict[str, str] = {}
        self._devices: tuple[NodeDevice, ...] = ()
        self._earlier: tuple[NodeDevice, ...] = ()
        self._reported: NvmlReport | None = None
        self._events_unavailable: tuple[str, ...] = ()
        self._rebound = False
        self._read_at = clock.monotonic()
        self._alive_at = self._probed_at = clock.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Watch until the stop event is set.

        Raises:
            NoGpusError: no GPU was found at the start, and the watch is not patient.
        """
        while not stop.is_set():
            problem = self._one_session(stop)
            if problem is not None:
                self._report_changes(problem)
                if not self._patient and not self._devices:
                    raise NoGpusError(problem)
                self._clock.wait(stop, self._periods.retry)

    def unresponsive_for(self) -> float:
        """Seconds since an NVML call last returned: a large number means that the driver hangs."""
        return self._clock.monotonic() - self._alive_at

    def clear(self, gpu: str, order: str) -> None:
        """Forget the faults of a GPU and probe it; each order is carried out once. Safe from any thread."""
        self._cleared.append((gpu, order))

    def _one_session(self, stop: threading.Event) -> str | None:
        """From initialisation to shutdown. Returns why there is nothing to watch, or None."""
        self._versions = None
        try:
            self._nvml.open()
            self._beat()
            self._recall()
            self._rebound = False
            self._versions = Versions(self._nvml.driver_version(), self._nvml.cuda_version())
            self._read()
            if not self._devices:
                return "NVML lists no GPU on this node."
            self._probe()
            self._watch(stop)
        except NvmlError as error:
            self._devices = tuple(device.as_unhealthy(str(error)) for device in self._devices)
            return str(error)
        finally:
            self._nvml.close()
        return None

    def _read(self) -> None:
        """Read the devices that exist now."""
        self._devices = read_inventory(self._nvml, self._numa_of, self._devices)
        if physical(self._devices):
            self._devices, self._earlier = with_earlier(self._devices, self._earlier), ()
        self._read_at = self._clock.monotonic()

    def _recall(self) -> None:
        """A fault that only a reset clears remains until the node is booted or the driver loaded again."""
        era = self._fault_store.era(self._nvml.driver_version())
        if self._era is None:
            known = self._fault_store.recall()
            self._orders_done, self._earlier = dict(known.orders_done), known.parts
            self._health = self._health.with_latched_faults(known.faults if known.era == era else {})
        elif era != self._era:
            self._health = self._health.renewed()
        self._era = era

    def _watch(self, stop: threading.Event) -> None:
        """Watch until it is time to initialise again."""
        begun = self._clock.monotonic()
        while not self._over(begun, stop):
            answering = self._answering()
            stream = self._nvml.events(answering)
            self._events_unavailable = tuple(
                f"Events of {gpu} are unavailable: {why}" for gpu, why in stream.events_unavailable.items()
            )
            try:
                self._report_changes(None)
                if self._pci_topology.learn(answering):
                    self._report_changes(None)
                while answering == self._answering() and not self._over(begun, stop):
                    self._step(stream)
                    self._beat()
            except NvmlError:
                # The probe finds out which GPU it was; then events of the others are registered again.
                self._probe()
                self._clock.wait(stop, self._periods.wait)
            finally:
                stream.close()

    def _over(self, begun: float, stop: threading.Event) -> bool:
        period = self._periods.restart if self._health.unresponsive else self._periods.rescan
        return stop.is_set() or self._rebound or self._clock.monotonic() - begun >= period

    def _answering(self) -> tuple[str, ...]:
        """The GPUs whose events to register: a lost one would fail every wait for the others' events."""
        return tuple(gpu for gpu in physical(self._devices) if gpu not in self._health.unresponsive)

    def _step(self, stream: EventStream) -> None:
        event = stream.wait(self._periods.wait)
        self._rebound = self._rebound or stream.rebound()
        if self._cleared:
            self._clear()
        if event is not None:
            self._after(event)
        elif self._clock.monotonic() - self._probed_at >= self._periods.probe:
            self._probe()
        if self._clock.monotonic() - self._read_at >= self._periods.reread:
            self._read()
            self._report_changes(None)
        self._measure()

    def _clear(self) -> None:
        while self._cleared:
            gpu, order = self._cleared.popleft()
            if self._orders_done.get(gpu) != order:
                self._orders_done[gpu] = order
                self._health = self._health.apply(FaultCleared(gpu))
        self._probe()

    def _after(self, event: GpuEvent) -> None:
        self._health = self._health.apply(EventSeen(event, self._clock.monotonic()))
        if event.kind == EventKind.MIG_CHANGED:
            self._read()
        self._probe()

    def _probe(self) -> None:
        """Probe every GPU. One that responds again after the inventory failed to read it is read again."""
        for gpu in physical(self._devices):
            self._health = self._health.apply(self._ask(gpu))
            self._beat()
        self._probed_at = self._clock.monotonic()
        unread = {device.uuid for device in self._devices if not device.published.is_healthy}
        if unread.intersection(self._answering()):
            self._read()
        self._report_changes(None)

    def _measure(self) -> None:
        """Measure, once a period. A GPU whose measurement fails is left out: the probe finds out why."""
        now = self._clock.monotonic()
        if self._measured_at is not None and now - self._measured_at < self._periods.measure:
            return
        self._measured_at = now
        usages: dict[str, GpuUsage] = {}
        for gpu in self._answering():
            parts = tuple(one.uuid for one in self._devices if one.published.parent == gpu)
            with suppress(NvmlError):
                usages[gpu] = self._nvml.usage(gpu, parts)
            self._beat()
        self._measured(UsageReport(self._devices, usages))

    def _ask(self, gpu: str) -> ProbeFailed | ProbeAnswered:
        try:
            self._nvml.touch(gpu)
            action = self._nvml.recovery_action(gpu)
            rows = self._nvml.rows(gpu)
        except NvmlError as error:
            return ProbeFailed(gpu, str(error), self._clock.monotonic())
        return ProbeAnswered(gpu, action, self._clock.monotonic(), rows)

    def _report_changes(self, problem: str | None) -> None:
        self._beat()
        if self._era is not None:
            parts = tuple(d for d in (*self._devices, *self._earlier) if d.published.parent is not None)
            self._fault_store.keep(
                Known(self._era, self._health.latched_faults, dict(self._orders_done), parts)
            )
        known = with_health(self._devices, self._health)
        current = NvmlReport(
            known, problem, self._events_unavailable, self._versions, self._pci_topology.known
        )
        if current != self._reported:
            self._reported = current
            self._report(current)

    def _beat(self) -> None:
        self._alive_at = self._clock.monotonic()
