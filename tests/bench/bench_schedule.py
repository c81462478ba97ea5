"""Pods per second through the real kube-scheduler on simulated nodes: with ours, a null extender, and none.

The ways take turns in one cluster, one cluster per number of nodes. On two cores everybody competes, so the
floor is an extender with the same verbs that decides nothing; the rate without any is there as information.
kube-scheduler's own limit on API calls (qps) would hide what an extender costs, so the limit is far above
that, and once at its default.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Final, get_args

from cluster.process.clock import SystemClock
from tests.bench.arena import QPS, Arena, Asks, arena, gpu_pod
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.rows import Kind, Row, Target
from tests.bench.simulated import GPUS, programs
from tests.bench.table import percentile

SIZES: Final = {100: 3, 1000: 3}
"""Nodes -> turns of each way, at a qps at which only the processors limit the rate."""
DEFAULT_QPS: Final = 50
PODS_OF_A_TURN: Final = 300
WARM_UP: Final = 20
CROWDED: Final = "simulated-crowded"
CROWD: Final = 40
"""GPUs of that node, and the number of pods that go there at once."""
CROWDS: Final = 3
"""Per turn."""
_NULL: Final = "the same with an extender that decides nothing"
_NONE: Final = "the same without an extender"


def _rate(name: str, nodes: int, qps: int, floor: str, target: Target | None) -> Kind:
    return Kind(
        name,
        f"pods with one GPU, {PODS_OF_A_TURN} at once on {nodes} simulated nodes of {GPUS}: created to bound;"
        f" kube-scheduler's qps {qps}, burst {2 * qps}",
        "pods/s",
        floor,
        target=target,
    )


_RATES: Final = {
    nodes: _rate(f"schedule-{nodes}-nodes-null", nodes, QPS, _NULL, Target(ratio=0.9, at_least=True))
    for nodes in SIZES
}
_BARE: Final = {
    nodes: _rate(f"schedule-{nodes}-nodes", nodes, QPS, _NONE, Target(ratio=ratio, at_least=True))
    for nodes, ratio in zip(SIZES, (0.7, 0.75), strict=True)
}
_PROCESSOR: Final = {
    nodes: Kind(
        f"schedule-{nodes}-nodes-cpu",
        f"processor time of the extender for each of these pods, {nodes} nodes",
        "ms",
        target=Target(value=value),
    )
    for nodes, value in zip(SIZES, (2.0, 3.0), strict=True)
}
_SLOW: Final = _rate("schedule-qps-50", min(SIZES), DEFAULT_QPS, _NONE, None)
_CROWD: Final = Kind(
    "schedule-one-node",
    f"{CROWD} pods with one GPU at once onto one node of {CROWD}: created to the last bound",
    "s",
    _NONE,
    target=Target(ratio=1.7),
)
_CALLS: Final = Kind(
    "schedule-calls",
    "requests of the extender to the API server per pod bound, by the API server's audit log, renewals of its"
    " Lease (every 2 s) apart",
    "calls",
    target=Target(value=1.0),
)

ANSWER: Final = Kind(
    "schedule-answer-p95",
    f"the simulated kubelets of these pods, {min(SIZES)} nodes: bound to Running, p95",
    "ms",
    _NULL,
)


def measure(_lab: Lab) -> Iterator[Row]:
    """Both sizes, each in turns with our extender, the null one and none."""
    for nodes, turns in SIZES.items():
        with arena(nodes, larger={CROWDED: CROWD}) as place:
            taken = Turns(place)
            taken.take(QPS, turns)
            ours = taken.median("rate", "ours")
            yield _RATES[nodes].row(ours, taken.median("rate", "null"))
            yield _BARE[nodes].row(ours, taken.median("rate", "none"))
            yield _PROCESSOR[nodes].row(taken.median("cpu", "ours"))
            if nodes == min(SIZES):
                yield _CROWD.row(taken.median("crowd", "ours"), taken.median("crowd", "none"))
                yield _CALLS.row(taken.calls / taken.bound)
                yield ANSWER.row(taken.median("answer", "ours"), taken.median("answer", "null"))
                slow = Turns(place, "slow")
                slow.take(DEFAULT_QPS, 1)
                yield _SLOW.row(slow.median("rate", "ours"), slow.median("rate", "none"))


@dataclass
class Turns:
    """The ways, one after the other in one cluster."""

    arena: Arena
    prefix: str = "turn"
    """Of the pods' names: no two turns of a cluster have pods with the same name."""
    results: dict[tuple[str, Asks], list[float]] = field(default_factory=dict, init=False)
    """(what was measured, with which extender) -> one number per turn, or per crowd."""
    calls: int = field(default=0, init=False)
    """The number of requests that our extender sent while pods were bound."""
    bound: int = field(default=0, init=False)
    """The number of these pods."""
    _number: int = field(default=0, init=False)

    def take(self, qps: int, turns: int) -> None:
        """Take this many turns of each way, alternately."""
        for _ in range(turns):
            for asks in get_args(Asks):
                self._turn(qps, asks)

    def median(self, what: str, asks: Asks) -> float:
        """The median with this extender."""
        return median(self.results[what, asks])

    def _turn(self, qps: int, asks: Asks) -> None:
        """Pods anywhere, then crowds on one node: from the creation of the first to the bind of the last."""
        self._number += 1
        with self.arena.scheduling(qps, asks):
            self._bind(WARM_UP, "warm")
            self.arena.audit.calls()
            before = self.arena.processor_seconds()
            self._note("rate", PODS_OF_A_TURN / self._bind(PODS_OF_A_TURN, "pod"), asks)
            if asks == "ours":
                used = self.arena.processor_seconds() - before
                self._note("cpu", 1000 * used / PODS_OF_A_TURN, asks)
                self.calls += self.arena.audit.calls()
                self.bound += PODS_OF_A_TURN
            self._bind(PODS_OF_A_TURN, "answered", asks)
            self.arena.audit.calls()
            for crowd in range(CROWDS):
                self._note("crowd", self._bind(CROWD, f"crowd-{crowd}", node=CROWDED), asks)
            if asks == "ours":
                self.calls += self.arena.audit.calls()
                self.bound += CROWDS * CROWD

    def _note(self, what: str, found: float, asks: Asks) -> None:
        self.results.setdefault((what, asks), []).append(found)

    def _bind(self, count: int, what: str, answered: Asks | None = None, *, node: str | None = None) -> float:
        """Seconds until this many pods were bound; they are removed afterwards.

        Args:
            count: how many.
            what: a part of their names.
            answered: the extender for which the answers of their kubelets count; None if they do not.
            node: the only node on which they may run.
        """
        pods = [f"{self.prefix}-{self._number}-{what}-{number}" for number in range(count)]
        begin = SystemClock().monotonic()
        self.arena.create(gpu_pod(pod, node=node) for pod in pods)
        bound = [self.arena.sightings.at(pod, "bound") for pod in pods]
        if answered:
            took = [self.arena.sightings.at(pod, "Running") - at for pod, at in zip(pods, bound, strict=True)]
            self._note("answer", 1000 * percentile(took, 95), answered)
        self.arena.remove(pods)
        return max(bound) - begin


MEASURE: Final = Measure(
    "schedule",
    (*_RATES.values(), *_BARE.values(), *_PROCESSOR.values(), _CROWD, _CALLS, ANSWER, _SLOW),
    measure,
    on_cluster=True,
    prepare=programs,
)
