"""How soon the kubelet learns that a GPU was taken out of use by hand. A part of ``bench_agent``."""

import statistics
from collections.abc import Iterator
from typing import Final

from booking.server.service.device_orders import GpuOrder, NodeGpus
from cluster.process.clock import SystemClock
from devcluster.demo.access import administrator
from devcluster.wait import Stopwatch
from tests.bench.agent_log import logged
from tests.bench.lab import Lab
from tests.bench.rows import Kind, Row, Target

TIMES: Final = 10
ORDERS: Final[tuple[GpuOrder, ...]] = ("cordon", "uncordon")
_CORDON: Final = Kind(
    "agent-cordon",
    f"agent: an order to cordon a GPU, or to take that back, until the kubelet knows, median of {2 * TIMES}",
    "ms",
    "until the order is on the Node",
    target=Target(value=1000),
)
KINDS: Final = (_CORDON,)


def measure(lab: Lab, node: str) -> Iterator[Row]:
    """One GPU, cordoned and uncordoned in turns."""
    taken = [_ordered(lab, node, order) for _ in range(TIMES) for order in ORDERS]
    yield _CORDON.row(*(1000 * statistics.median(times) for times in zip(*taken, strict=True)))


def _ordered(lab: Lab, node: str, order: GpuOrder) -> tuple[float, float]:
    """Seconds until the kubelet was notified, and until the order was written on the Node."""
    orders = NodeGpus(administrator(lab.standing.cluster))
    begin, watch = SystemClock().now(), Stopwatch()
    orders.order(node, "0", order, message="the bench", at=begin)
    written = watch.seconds
    at = logged(lab.standing.parts.agent(node), "devices advertised to the kubelet", since=begin)
    return (at - begin).total_seconds(), written
