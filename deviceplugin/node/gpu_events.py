"""Events on the Node about its GPUs: why one gets no new pods, and that it gets them again."""

from collections.abc import Iterable

from cluster import names
from cluster.kube.events import EventRecorder
from cluster.objects.inventory import Device
from cluster.objects.nodes import Node


class GpuEventReporter:
    """Compares the published devices with those reported before; used by the publisher's thread."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._reported: dict[str, str | None] = {}

    def report(self, node: Node, devices: Iterable[Device]) -> None:
        """Report changes since the last time. A healthy device that is new is not reported."""
        for device in devices:
            reason = None if device.is_healthy else (device.reason or "no reason is known")
            if self._reported.get(device.uuid) == reason:
                continue
            self._reported[device.uuid] = reason
            gpu = f"GPU {device.index} ({device.uuid})"
            if reason is None:
                self._recorder.normal(node, names.GPU_HEALTHY, f"{gpu} is healthy again: it gets new pods.")
            else:
                self._recorder.warning(node, names.GPU_UNHEALTHY, f"{gpu} gets no new pods. {reason}.")
