"""The thread that owns NVML: it finds the GPUs, waits for events, probes, and reports what has changed.

The node agent gives it a callback and otherwise never calls NVML, so a driver that is slow or hangs stops
nothing but this thread; ``silent_for`` tells for how long. Whatever is missing (library, driver, GPUs) is
said once as a sentence and looked for again; the thread ends only when it is told to.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from cluster.runtime.clock import Clock
from deviceplugin.nvml.health import Answered, Failed, Happened, HealthState
from deviceplugin.nvml.inventory import NodeDevice, physical, read_inventory, with_health
from deviceplugin.nvml.port import EventKind, EventStream, GpuEvent, Nvml, NvmlError


@dataclass(frozen=True, slots=True)
class Report:
    """What the agent is told: all known devices with their health, and what is wrong as a whole."""

    devices: tuple[NodeDevice, ...]
    problem: str | None = None
    """A sentence: no library, no driver, no GPU, or a driver that does not answer. None when all is well."""
    deaf: tuple[str, ...] = ()
    """Sentences: GPUs whose events NVML does not tell. They are probed all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Periods:
    """How often the thread does what, in seconds."""

    wait: float = 1.0
    """The longest wait for one event, and the pause after a wait that failed."""
    probe: float = 5.0
    """Between two probes of every GPU."""
    retry: float = 10.0
    """Between two attempts to find a library, a driver or a GPU."""
    revive: float = 60.0
    """Between two initialisations while a GPU does not answer: some come back only then."""
    rescan: float = 3600.0
    """The same while all answer, to see new GPUs. Rarely: events in between are not heard, and a driver
    without persistence mode starts an idle GPU afresh, which takes seconds."""


class GpuWatch:
    """The owner of NVML. ``report`` is called in its thread, at once and then whenever something changed."""

    def __init__(
        self,
        nvml: Nvml,
        numa_of: Callable[[str], int | None],
        report: Callable[[Report], None],
        *,
        clock: Clock,
        periods: Periods | None = None,
        health: HealthState | None = None,
    ) -> None:
        self._nvml = nvml
        self._numa_of = numa_of
        self._report = report
        self._clock = clock
        self._periods = periods or Periods()
        self._health = health or HealthState()
        self._devices: tuple[NodeDevice, ...] = ()
        self._told: Report | None = None
        self._deaf: tuple[str, ...] = ()
        self._alive_at = self._probed_at = clock.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Watch until told to stop."""
        while not stop.is_set():
            problem = self._one_session(stop)
            if problem is not None:
                self._tell(problem)
                self._clock.wait(stop, self._periods.retry)

    def silent_for(self) -> float:
        """Seconds since NVML last gave control back: large means that the driver hangs."""
        return self._clock.monotonic() - self._alive_at

    def _one_session(self, stop: threading.Event) -> str | None:
        """From initialisation to shutdown; the sentence that says why there is nothing to watch, or None."""
        try:
            self._nvml.open()
            self._beat()
            self._devices = read_inventory(self._nvml, self._numa_of, self._devices)
            if not self._devices:
                return "NVML lists no GPU on this node."
            self._probe()
            self._watch(stop)
        except NvmlError as error:
            self._devices = tuple(device.sick(str(error)) for device in self._devices)
            return str(error)
        finally:
            self._nvml.close()
        return None

    def _watch(self, stop: threading.Event) -> None:
        """Until it is time to initialise anew."""
        begun = self._clock.monotonic()
        while not self._over(begun, stop):
            answering = self._answering()
            stream = self._nvml.events(answering)
            self._deaf = tuple(f"Events of {gpu} cannot be had: {why}" for gpu, why in stream.deaf.items())
            try:
                self._tell(None)
                while answering == self._answering() and not self._over(begun, stop):
                    self._step(stream)
                    self._beat()
            except NvmlError:
                # Which GPU it was is for the probe to say; then the others are listened to afresh.
                self._probe()
                self._clock.wait(stop, self._periods.wait)
            finally:
                stream.close()

    def _over(self, begun: float, stop: threading.Event) -> bool:
        period = self._periods.revive if self._health.silent else self._periods.rescan
        return stop.is_set() or self._clock.monotonic() - begun >= period

    def _answering(self) -> tuple[str, ...]:
        """The GPUs to listen to: one that is lost would fail every wait of the others."""
        return tuple(gpu for gpu in physical(self._devices) if gpu not in self._health.silent)

    def _step(self, stream: EventStream) -> None:
        event = stream.wait(self._periods.wait)
        if event is not None:
            self._after(event)
        elif self._clock.monotonic() - self._probed_at >= self._periods.probe:
            self._probe()

    def _after(self, event: GpuEvent) -> None:
        self._health = self._health.apply(Happened(event, self._clock.monotonic()))
        if event.kind == EventKind.MIG_CHANGED:
            self._devices = read_inventory(self._nvml, self._numa_of, self._devices)
        self._probe()

    def _probe(self) -> None:
        """Ask every GPU; one that answers again although the inventory could not read it is read afresh."""
        for gpu in physical(self._devices):
            self._health = self._health.apply(self._ask(gpu))
            self._beat()
        self._probed_at = self._clock.monotonic()
        unread = {device.uuid for device in self._devices if not device.published.is_healthy}
        if unread.intersection(self._answering()):
            self._devices = read_inventory(self._nvml, self._numa_of, self._devices)
        self._tell(None)

    def _ask(self, gpu: str) -> Failed | Answered:
        try:
            self._nvml.touch(gpu)
            action = self._nvml.recovery_action(gpu)
        except NvmlError as error:
            return Failed(gpu, str(error))
        return Answered(gpu, action, self._clock.monotonic())

    def _tell(self, problem: str | None) -> None:
        self._beat()
        news = Report(with_health(self._devices, self._health), problem, self._deaf)
        if news != self._told:
            self._told = news
            self._report(news)

    def _beat(self) -> None:
        self._alive_at = self._clock.monotonic()
