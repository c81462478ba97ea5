"""Many pods that filter has rejected: what they cost while nothing changes, and how soon they are requeued.

The extender as it is shipped, with a simulated API server. Half of the pods wait for two GPUs of a node, half
for four; every node has one free, and now and then one node has two.
"""

from collections.abc import Iterator
from threading import Event
from typing import Any, Final

import msgspec

from cluster.process.clock import SystemClock
from extender.wire import ExtenderFilterResult
from tests.bench.bench_extender import MIB, NODES, Extender, an_extender, want
from tests.bench.canned_server import waiting_pod
from tests.bench.child import child
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.measured_cluster import filter_request
from tests.bench.rows import Kind, Row, Target
from tests.bench.table import percentile

PODS: Final = 2_000
SETTLES: Final = 5.0
"""Seconds after which the reasons of all waiting pods are written."""
SPAN: Final = 20.0
"""Seconds in which nothing changes."""
FREED: Final = 50
_SIZE: Final = f"{PODS} pods that filter has rejected, {NODES} nodes"

_MEMORY: Final = Kind(
    "rejected-memory", f"memory of the extender with {_SIZE}", "MiB", target=Target(value=120)
)
_IDLE: Final = Kind(
    "rejected-idle",
    "of a processor that it uses then while nothing changes",
    "%",
    target=Target(value=5),
)
_CALLED: Final = {
    percent: Kind(
        f"rejected-called-p{percent}",
        f"release of a GPU to requeueing of the pods that it helps, p{percent} of {FREED}; {_SIZE}",
        "ms",
        target=Target(value=100) if percent > 50 else None,
    )
    for percent in (50, 95)
}


def measure(_lab: Lab) -> Iterator[Row]:
    """Reject all pods, then wait, then free one GPU after the other."""
    with (
        child("tests.bench.canned_server", str(NODES), str(PODS)) as port,
        an_extender(int(port)) as extender,
    ):
        extender.await_first_answer()
        _turn_down(extender)
        SystemClock().wait(Event(), SETTLES)
        yield _IDLE.row(100 * _used(extender) / SPAN)
        # Every second node has the model that the pods wait for.
        freed = [msgspec.json.decode(want(int(port), "/free", 2 * n), type=float) for n in range(FREED)]
        yield _MEMORY.row(extender.memory() / MIB)
        _check(extender)
        for percent, kind in _CALLED.items():
            yield kind.row(percentile(freed, percent))


def _turn_down(extender: Extender) -> None:
    request: dict[str, Any] = msgspec.json.decode(filter_request(NODES))
    for number in range(PODS):
        body = msgspec.json.encode({**request, "Pod": waiting_pod(number)})
        answer = msgspec.json.decode(extender.scheduler.ask("/filter", body), type=ExtenderFilterResult)
        if answer.error or answer.node_names:
            raise RuntimeError(f"Filter has not turned a pod down: {answer.error or answer.node_names}.")


def _used(extender: Extender) -> float:
    """Seconds of processor time that the extender uses in that span."""
    before = extender.processor_seconds()
    SystemClock().wait(Event(), SPAN)
    return extender.processor_seconds() - before


def _check(extender: Extender) -> None:
    """Check that kube-scheduler was called for the pods that a second GPU helps, and for no others.

    Raises:
        RuntimeError: it was called for others.
    """
    lines = [line for line in extender.log().splitlines() if "was made to requeue" in line]
    called = {msgspec.json.decode(line)["pods"] for line in lines}
    if called != {PODS // 2}:
        raise RuntimeError(f"kube-scheduler was called for {called} pods, and {PODS // 2} would fit.")


MEASURE: Final = Measure("rejected", (_MEMORY, _IDLE, *_CALLED.values()), measure)
