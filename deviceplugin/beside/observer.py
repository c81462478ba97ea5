"""Observes a node whose GPUs another plugin gives out, and keeps its numbered GPUs up to date.

Takes the place of preparation and registrations. Nothing is registered and nothing is injected: the other
plugin does both. The agent's thread reads the kubelet's checkpoint every second; reports of NVML and changes
of the Node wake it.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Protocol

import msgspec
import structlog

from cluster.objects.assignment import devices_of, readable_assignment_of
from cluster.objects.device_usage import NodeUsage
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod, is_terminal
from cluster.objects.quantity import QuantityError, parse_count
from cluster.process.clock import Clock
from deviceplugin.advertised import with_closed, with_cordons
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.beside.numbering import Ids, Observed, numbered, really_has, serves
from deviceplugin.beside.opening import Opening
from deviceplugin.device_cache import AdvertisedDevices, DeviceCache
from deviceplugin.kubelet.checkpoint import CheckpointError
from deviceplugin.metrics import AgentMetrics
from deviceplugin.nvml.watch import NvmlReport
from deviceplugin.preparation import UNRESPONSIVE_AFTER, as_unresponsive

CHECK_EVERY: Final = 1.0
"""Seconds between two reads of the kubelet's checkpoint."""

log = structlog.get_logger(__name__)


class Checkpoint(Protocol):
    """The interface of ``checkpoint.CheckpointFile``."""

    def read(self) -> PodDevices:
        """The devices of each pod; raises CheckpointError."""
        ...

    def registered(self) -> Ids:
        """Resource -> ids that a plugin has registered; raises CheckpointError."""
        ...


class Observer:
    """Keeps two caches: the real devices, for people, and the numbered ones (``shown``)."""

    def __init__(
        self,
        node: str,
        real: DeviceCache,
        *,
        checkpoint: Checkpoint,
        pods: Callable[[], tuple[Pod, ...] | None],
        metrics: AgentMetrics,
        clock: Clock,
        opening: Opening | None = None,
        closed: str | None = None,
    ) -> None:
        """Nothing is known yet.

        Args:
            node: the Node's name.
            real: gets the devices by their UUIDs.
            checkpoint: the kubelet's.
            pods: the pods of this node; None if they cannot be read now.
            metrics: get the health of the real devices.
            clock: for the thread's rounds.
            opening: how GPUs are offered to pods that share them; None if none is opened for shares.
            closed: why nothing is offered anew; None if it is.
        """
        self._offers_nothing = closed
        self.shown: Final = DeviceCache()
        self._name = node
        self._real = real
        self._checkpoint = checkpoint
        self._pods = pods
        self._metrics = metrics
        self._clock = clock
        self._opening = opening
        self._may_share = True
        self._closed: str | None = None
        """Why no GPU can be opened for shares, as it was last written to the log."""
        self._lock = threading.Lock()
        self._report: NvmlReport | None = None
        self._node: Node | None = None
        self._cordoned: Mapping[str, str] = {}
        self._assigned: Mapping[str, frozenset[str]] = {}
        self._problem: str | None = "The Node has not been read yet."
        self._wake = threading.Event()

    @property
    def problem(self) -> str | None:
        """Why the node does not serve, for people; None if it does."""
        return self._problem

    @property
    def is_registered(self) -> bool:
        """Whether the node serves: the kubelet has GPUs of another plugin, which are allocatable."""
        return self._problem is None

    def update(self, report: NvmlReport) -> None:
        """Take over a report of the NVML thread."""
        with self._lock:
            self._report = report
        self.once()

    def observe(self, node: Node) -> None:
        """Take over the Node. Safe from any thread."""
        with self._lock:
            self._node = node
        self._wake.set()

    def cordon(self, cordoned: Mapping[str, str]) -> None:
        """Set the numbered GPUs that new pods do not get: number -> by whom and why. Safe from any thread."""
        with self._lock:
            self._cordoned = cordoned
        self._wake.set()

    def share(self, *, is_wanted: bool) -> None:
        """Set whether GPUs may be opened for shares, as far as the settings allow. Safe from any thread."""
        self._may_share = is_wanted
        self._wake.set()

    def run(self, stop: threading.Event, unresponsive_for: Callable[[], float]) -> None:
        """Observe until the stop event is set.

        Args:
            stop: ends it.
            unresponsive_for: seconds since the driver last answered.
        """
        while not stop.is_set():
            self.once(is_unresponsive=unresponsive_for() >= UNRESPONSIVE_AFTER)
            if not self._wake.is_set():
                self._clock.wait(stop, CHECK_EVERY)
            self._wake.clear()

    def once(self, *, is_unresponsive: bool = False) -> None:
        """One round: read what has changed, and put the devices."""
        with self._lock:
            try:
                registered = self._checkpoint.registered()
            except CheckpointError as error:
                self._problem = str(error)
                return
            allocatable = amounts(self._node)
            if self._node is not None:
                self._problem = serves(registered, allocatable)
            self._learn_assigned()
            report = as_unresponsive(self._report) if is_unresponsive else self._report
            if report is not None and self._node is not None:
                self._put(report, registered, allocatable)

    def as_reported(self, use: NodeUsage) -> NodeUsage:
        """The use of the GPUs, each under the number of the pod that really has it. For people."""
        numbers = {uuid: number for number, uuid in self.real_devices().items()}
        devices = tuple(
            msgspec.structs.replace(one, uuid=numbers[one.uuid], real=one.uuid)
            for one in use.devices
            if one.uuid in numbers
        )
        squatters = tuple(
            msgspec.structs.replace(one, device=numbers.get(one.device, one.device)) for one in use.squatters
        )
        over_users = tuple(
            msgspec.structs.replace(one, device=numbers.get(one.device, one.device)) for one in use.over_users
        )
        return msgspec.structs.replace(
            use,
            devices=tuple(sorted(devices, key=lambda one: one.uuid)),
            squatters=squatters,
            over_users=over_users,
        )

    def real_devices(self) -> Mapping[str, str]:
        """Numbered GPU -> UUID of the GPU that its pod really has."""
        try:
            held = self._checkpoint.read()
        except CheckpointError:
            return {}
        has = {uid: held.of(uid) for uid in self._assigned}
        real = [device.uuid for device in self._real.now.devices]
        return really_has(self.shown.now.devices, real, self._assigned, has)

    def _slots(self, allocatable: Mapping[str, int]) -> int:
        """How many containers can share a GPU here; 0 if none can be opened for them."""
        if self._opening is None or not self._may_share:
            return 0
        problem = self._opening.problem(allocatable)
        if problem != self._closed:
            log.warning("no GPU can be opened for shares", reason=problem) if problem else log.info(
                "GPUs can be opened for shares"
            )
            self._closed = problem
        return 0 if problem else self._opening.slots

    def _learn_assigned(self) -> None:
        pods = self._pods()
        if pods is not None:
            self._assigned = {
                pod.metadata.uid: devices
                for pod in pods
                if not is_terminal(pod) and (devices := frozenset(devices_of(readable_assignment_of(pod))))
            }

    def _put(self, report: NvmlReport, registered: Ids, allocatable: Mapping[str, int]) -> None:
        real = tuple(device.published for device in report.devices if not device.gone)
        self._real.put(AdvertisedDevices(real, problem=report.problem, reported=True))
        self._metrics.set_states(real, {device.uuid: device.state.value for device in report.devices})
        for health in ("healthy", "unhealthy"):
            self._metrics.devices.labels(health).set(sum(device.health == health for device in real))
        seen = Observed(
            node=self._name,
            devices=report.devices,
            registered=registered,
            allocatable=allocatable,
            assigned=frozenset().union(*self._assigned.values()),
            slots=self._slots(allocatable),
            reserve=self._opening.reserve if self._opening else 0,
        )
        out = frozenset(device.uuid for device in self.shown.now.devices if not device.is_healthy)
        devices = with_cordons(numbered(seen, out - self._cordoned.keys()), self._cordoned)
        devices = with_closed(devices, self._offers_nothing)
        new = replace(self._real.now, devices=devices, cordoned=frozenset(self._cordoned))
        if self.shown.put(new):
            healthy = sum(device.is_healthy for device in devices)
            log.info("numbered GPUs observed", healthy=healthy, total=len(devices))


def amounts(node: Node | None) -> dict[str, int]:
    """Resource -> allocatable amount, as far as amounts are whole numbers."""
    found: dict[str, int] = {}
    for resource, amount in ((node.status.allocatable if node else None) or {}).items():
        try:
            found[resource] = parse_count(str(amount))
        except QuantityError:
            continue  # memory and the like are no counts
    return found
