"""Publishes the GPUs on the Node: keeps inventory and drift current, and writes Events about health.

The thread ``Publisher`` writes both annotations with a merge patch when they change, retries with growing
pauses, and reads the Node regularly, in case the annotations were removed or changed (law L9).
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from cluster import event_reasons, names
from cluster.kube.backoff import Backoff
from cluster.kube.errors import ApiError
from cluster.kube.events import EventRecorder
from cluster.kube.interface import Kube
from cluster.kube.resources import NODES
from cluster.objects.assignment import Assignment, encode_drift
from cluster.objects.inventory import Device, InventoryError, encode_inventory, inventory_of
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from cluster.process.clock import Clock
from cluster.process.stop_events import wake_at
from deviceplugin.allocation.drift import drift
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.device_cache import AdvertisedDevices, DeviceCache
from deviceplugin.kubelet.checkpoint import CheckpointError, CheckpointReader
from deviceplugin.metrics import AgentMetrics

log = structlog.get_logger(__name__)

READ_NODE_EVERY: Final = 60.0
"""Seconds between two reads of the Node."""
WRITE_EVERY: Final = 1.0
"""Minimum seconds between two writes: this limits the load of a flapping device on the API server."""
COMPARE_EVERY: Final = 1.0
"""Seconds between two comparisons of the kubelet's checkpoint with what was assigned."""
COMPARE_ANYWAY_EVERY: Final = 15.0
"""Seconds: pods end without a change in the checkpoint."""

Annotations = Mapping[str, str | None]
"""Key -> text; None if the key is absent."""


def wanted(devices: AdvertisedDevices, drifting: Mapping[str, Assignment] | None, node: Node) -> Annotations:
    """The Node's wanted annotations; one whose value is not known yet is left as it is.

    A node whose GPUs cannot be seen keeps those in its annotation, all unhealthy with the reason: what is
    known about them is not lost, and they get no new pods. The controller's mark of a node without an agent
    goes.
    """
    drift_text: Annotations = {}
    if drifting is not None:
        drift_text = {names.DRIFT: encode_drift(dict(drifting)) if drifting else None}
    return {**_wanted_inventory(devices, node), **drift_text, names.COUNTED: None}


def _wanted_inventory(devices: AdvertisedDevices, node: Node) -> Annotations:
    if not devices.reported:
        return {}
    if devices.devices:
        return {names.INVENTORY: encode_inventory(devices.devices)}
    had = _published(node)
    reason = devices.problem or "The node agent sees no GPUs"
    unhealthy = tuple(msgspec.structs.replace(device, health="unhealthy", reason=reason) for device in had)
    return {names.INVENTORY: encode_inventory(unhealthy) if unhealthy else None}


def changes(want: Annotations, node: Node) -> dict[str, str | None]:
    """The part of the wanted annotations that the Node does not have yet, for a merge patch."""
    return {key: text for key, text in want.items() if node.metadata.annotation(key) != text}


def _published(node: Node) -> tuple[Device, ...]:
    try:
        return inventory_of(node)
    except InventoryError:
        return ()


@dataclass(frozen=True, kw_only=True)
class PublisherSources:
    """The publisher's sources, and what it calls with the Node."""

    device_cache: DeviceCache
    checkpoint: CheckpointReader
    pods: Callable[[], tuple[Pod, ...] | None]
    """The pods that the kubelet knows; None if they cannot be read."""
    observe: Callable[[Node], None] = lambda _: None
    """Gets the Node whenever it was read, before anything is written."""
    label: Callable[[Node], Node] = lambda node: node
    """Writes what else is wanted of the Node, its labels for example; returns the Node after the change."""
    report: Callable[[Node, tuple[Device, ...]], None] = lambda _node, _devices: None
    """Gets the Node and the devices once the annotations are current."""


class GpuEventReporter:
    """Events on the Node: why a GPU gets no new pods, and that it gets them again.

    Compares the published devices with those reported before.
    """

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._reported: dict[str, str | None] = {}

    def report(self, node: Node, devices: Iterable[Device]) -> None:
        """Report changes since the last call. A new device that is healthy is not reported."""
        for device in devices:
            reason = None if device.is_healthy else (device.reason or "no reason is known")
            if self._reported.get(device.uuid) == reason:
                continue
            self._reported[device.uuid] = reason
            gpu = f"GPU {device.index} ({device.uuid})"
            if reason is None:
                self._recorder.normal(
                    node, event_reasons.GPU_HEALTHY, f"{gpu} is healthy again: it gets new pods."
                )
            else:
                self._recorder.warning(
                    node, event_reasons.GPU_UNHEALTHY, f"{gpu} gets no new pods. {reason}."
                )


class SharingModeReporter:
    """Events on the Node: that a GPU cannot be shared under MPS any more, and that it can again."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._offered: frozenset[str] | None = None

    def report(self, node: Node, devices: Iterable[Device]) -> None:
        """Report changes since the last call; in the first nothing has changed."""
        known = {device.uuid: device for device in devices}
        now = frozenset(u for u, device in known.items() if device.share and "mps" in device.share.modes)
        before, self._offered = self._offered, now
        for uuid in sorted((before or frozenset()) - now):
            text = (
                f"GPU {known[uuid].index} ({uuid}) gets no new pods that share it under MPS, because its"
                " control daemon does not answer. Pods that share it stay."
                if uuid in known
                else f"GPU {uuid} is gone, and nobody shares it under MPS any more."
            )
            self._recorder.warning(node, event_reasons.SHARING_MODE_LOST, text)
        for uuid in sorted(now - before) if before is not None else ():
            text = f"GPU {known[uuid].index} ({uuid}) can be shared under MPS: its control daemon answers."
            self._recorder.normal(node, event_reasons.SHARING_MODE_BACK, text)


class NodeProblemReporter:
    """Events on the Node: why it gets no pods although its GPUs are well."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._pods: str | None = None
        self._plugin: str | None = None
        self._waits: str | None = None

    def report(
        self, node: Node, *, pods: str | None, other_plugin: str | None, waits: str | None = None
    ) -> None:
        """Report problems that are others than in the last call.

        Args:
            node: the Node.
            pods: why it is not known which pod is being admitted.
            other_plugin: who else gives out the GPUs.
            waits: why the node does not give them out yet as its label says.
        """
        if pods is not None and pods != self._pods:
            self._recorder.warning(node, event_reasons.PODS_UNREADABLE, pods)
        if other_plugin is not None and other_plugin != self._plugin:
            self._recorder.warning(node, event_reasons.OTHER_PLUGIN, other_plugin)
        if waits is not None and waits != self._waits:
            self._recorder.warning(node, event_reasons.CHANGE_WAITS, waits)
        self._pods, self._plugin, self._waits = pods, other_plugin, waits


class Publisher:
    """The thread that writes the Node's annotations."""

    def __init__(
        self, kube: Kube, node: str, sources: PublisherSources, *, metrics: AgentMetrics, clock: Clock
    ) -> None:
        self._kube = kube
        self._name = node
        self._sources = sources
        self._metrics = metrics
        self._clock = clock
        self._backoff = Backoff()
        self._node: Node | None = None
        self._read_at = 0.0
        self._wrote_at = -WRITE_EVERY
        self._drift: Mapping[str, Assignment] | None = None
        self._compared: PodDevices | None = None
        self._compared_at = 0.0
        self._pause = COMPARE_EVERY
        self._problem: str | None = "The inventory has not been written to the Node yet."

    @property
    def problem(self) -> str | None:
        """Why the Node's annotations are not up to date, for people; None if they are."""
        return self._problem

    def run(self, stop: threading.Event) -> None:
        """Keep the annotations up to date until the stop event is set."""
        wake = threading.Event()
        wake_at(stop, wake)
        with self._sources.device_cache.listening(wake):
            while not stop.is_set():
                self._clock.wait(stop if self.once() else wake, self._pause)
                wake.clear()
                self._clock.wait(stop, max(0.0, self._wrote_at + WRITE_EVERY - self._clock.monotonic()))

    def once(self) -> bool:
        """One round: compare, and write what has changed. Returns whether it failed and a pause is due."""
        try:
            self._compare()
            self._write()
        except ApiError as error:
            self._metrics.publish_errors.inc()
            self._problem = f"The inventory could not be written to the Node: {error}"
            self._node = None
            self._pause = self._backoff.next()
            log.warning("node annotations could not be written", message=self._problem)
            return True
        self._backoff.reset()
        self._problem = None
        self._pause = COMPARE_EVERY
        return False

    def _compare(self) -> None:
        """Update the drift; it stays as it was if the pods cannot be read."""
        try:
            holdings = self._sources.checkpoint.read()
        except CheckpointError:
            return
        now = self._clock.monotonic()
        if holdings == self._compared and now - self._compared_at < COMPARE_ANYWAY_EVERY:
            return
        pods = self._sources.pods()
        if pods is None:
            return
        self._drift = drift(pods, holdings)
        self._metrics.drifting_pods.set(len(self._drift))
        self._compared, self._compared_at = holdings, now

    def _write(self) -> None:
        node = self._current()
        devices = self._sources.device_cache.now
        patch = changes(wanted(devices, self._drift, node), node)
        if patch:
            self._wrote_at = self._clock.monotonic()
            self._node = self._kube.patch(NODES, self._name, {"metadata": {"annotations": patch}})
            log.info("node annotations written", node=self._name, keys=sorted(patch))
        self._sources.report(node, devices.devices)
        self._node = self._sources.label(self._node or node)

    def _current(self) -> Node:
        """The Node as last seen, read again every ``READ_NODE_EVERY``."""
        now = self._clock.monotonic()
        if self._node is None or now - self._read_at >= READ_NODE_EVERY:
            self._node = self._kube.get(NODES, self._name)
            self._read_at = now
            self._sources.observe(self._node)
        return self._node
