"""Writes into the Node's status what ``kubectl inspect gpushare`` reads: memory for shares, and GPUs.

The kubelet counts what a Node's status offers for the pods that ask for it. What pods have by gpushare's
limits on one GPU is never more than is written for it, and a GPU that is unhealthy stays counted: so the
kubelet refuses no pod because of it.
"""

from collections.abc import Callable, Iterable
from typing import Final, Literal

import structlog

from cluster import dialect_names, names
from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube
from cluster.kube.resources import NODES
from cluster.objects.inventory import Device
from cluster.objects.nodes import Node
from cluster.process.clock import Clock

Unit = Literal["GiB", "MiB"]
MEBIBYTES: Final[dict[Unit, int]] = {"GiB": 1024, "MiB": 1}
RETRY_AFTER: Final = 10.0
"""Seconds before another attempt to write a status that could not be written."""

log = structlog.get_logger(__name__)


def gpushare_amounts(devices: Iterable[Device], unit: Unit) -> dict[str, str]:
    """Resource -> amount; nothing of a node without GPUs, or whose GPUs claims or another plugin give out."""
    known = tuple(devices)
    if not known or any(device.numbered or device.resource == names.CLAIM_RESOURCE for device in known):
        return {}
    offered = [device.share.memory // MEBIBYTES[unit] for device in known if device.share]
    return {names.ALIYUN_MEMORY: str(sum(offered)), dialect_names.GPUSHARE_COUNT: str(len(offered))}


class GpushareStatus:
    """Used by the publisher's thread, which knows the Node."""

    def __init__(self, kube: Kube, devices: Callable[[], Iterable[Device]], unit: Unit, clock: Clock) -> None:
        """Args: devices: those of the node as they are published; unit: that of ``aliyun.com/gpu-mem``."""
        self._kube = kube
        self._devices = devices
        self._unit: Unit = unit
        self._clock = clock
        self._not_before = 0.0

    def write(self, node: Node) -> Node:
        """Write the amounts if the Node has others, of none where it has some; returns the Node afterwards.

        The kubelet keeps them, except when the machine has been restarted.
        """
        wanted = gpushare_amounts(self._devices(), self._unit)
        both = {"capacity": node.status.capacity or {}, "allocatable": node.status.allocatable or {}}
        is_there = all(
            str(there.get(key, 0)) == text for there in both.values() for key, text in wanted.items()
        )
        if is_there or self._clock.monotonic() < self._not_before:
            return node
        try:
            after = self._kube.patch(
                NODES, node.metadata.name, {"status": dict.fromkeys(both, wanted)}, subresource="status"
            )
        except ApiError as error:
            self._not_before = self._clock.monotonic() + RETRY_AFTER
            log.warning(
                "gpushare's amounts could not be written",
                message=f"Memory for shares could not be written into the Node's status: {error}",
            )
            return node
        log.info("gpushare's amounts written", node=node.metadata.name, amounts=wanted)
        return after
