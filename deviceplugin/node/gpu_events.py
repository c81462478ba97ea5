"""Events on the Node about its GPUs: why one gets no new pods, and that it gets them again."""

from collections.abc import Iterable

from cluster import names
from cluster.kube.events import EventRecorder
from cluster.objects.inventory import Device
from cluster.objects.nodes import Node


class GpuEventReporter:
    """Compares what is published with what was told before; used by the publisher's thread."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._told: dict[str, str | None] = {}

    def report(self, node: Node, devices: Iterable[Device]) -> None:
        """Say what has changed since the last time. A healthy device that is new is no news."""
        for device in devices:
            reason = None if device.is_healthy else (device.reason or "no reason is known")
            if self._told.get(device.uuid) == reason:
                continue
            self._told[device.uuid] = reason
            who = f"GPU {device.index} ({device.uuid})"
            if reason is None:
                self._recorder.normal(node, names.GPU_HEALTHY, f"{who} is healthy again: it gets new pods.")
            else:
                self._recorder.warning(node, names.GPU_UNHEALTHY, f"{who} gets no new pods. {reason}.")
