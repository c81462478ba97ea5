"""Pods per second through the real kube-scheduler on simulated nodes, with our extender and without one.

The two ways take turns in one cluster, one cluster per number of nodes. kube-scheduler's own limit on API
calls (qps) would hide what an extender costs, so the limit is far above that, and once at its default.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from cluster.process.clock import SystemClock
from tests.bench.arena import QPS, Arena, arena, gpu_pod
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.rows import Kind, Row, Target
from tests.bench.simulated import GPUS, program

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
_FLOOR: Final = "the same without our extender"


def _rate(name: str, nodes: int, qps: int, target: Target | None) -> Kind:
    return Kind(
        name,
        f"pods with one GPU, {PODS_OF_A_TURN} at once on {nodes} simulated nodes of {GPUS}: created to bound;"
        f" kube-scheduler's qps {qps}, burst {2 * qps}",
        "pods/s",
        _FLOOR,
        target=target,
    )


_RATES: Final = {
    nodes: _rate(f"schedule-{nodes}-nodes", nodes, QPS, Target(ratio=0.85, at_least=True)) for nodes in SIZES
}
_SLOW: Final = _rate("schedule-qps-50", min(SIZES), DEFAULT_QPS, None)
_CROWD: Final = Kind(
    "schedule-one-node",
    f"{CROWD} pods with one GPU at once onto one node of {CROWD}: created to the last bound",
    "s",
    _FLOOR,
    target=Target(ratio=2.0),
)
_CALLS: Final = Kind(
    "schedule-calls",
    "requests of the extender to the API server per pod bound, by the API server's audit log",
    "calls",
    target=Target(value=1.0),
)


def measure(_lab: Lab) -> Iterator[Row]:
    """Both sizes, each in turns with our extender and without it."""
    for nodes, turns in SIZES.items():
        with arena(nodes, larger={CROWDED: CROWD}) as place:
            taken = Turns(place)
            taken.take(QPS, turns)
            yield _RATES[nodes].row(*taken.medians("rate"))
            if nodes == min(SIZES):
                yield _CROWD.row(*taken.medians("crowd"))
                yield _CALLS.row(taken.calls / taken.bound)
                slow = Turns(place, "slow")
                slow.take(DEFAULT_QPS, 1)
                yield _SLOW.row(*slow.medians("rate"))


@dataclass
class Turns:
    """The two ways, one after the other in one cluster."""

    arena: Arena
    prefix: str = "turn"
    """Of the pods' names: no two turns of a cluster have pods with the same name."""
    results: dict[tuple[str, bool], list[float]] = field(default_factory=dict, init=False)
    """(what was measured, whether with our extender) -> one number per turn, or per crowd."""
    calls: int = field(default=0, init=False)
    """The number of requests that our extender sent while pods were bound."""
    bound: int = field(default=0, init=False)
    """The number of these pods."""
    _number: int = field(default=0, init=False)

    def take(self, qps: int, turns: int) -> None:
        """Take this many turns of each way, alternately."""
        for _ in range(turns):
            for ours in (True, False):
                self._turn(qps, ours=ours)

    def medians(self, what: str) -> tuple[float, float]:
        """The medians with our extender, and without it."""
        return median(self.results[what, True]), median(self.results[what, False])

    def _turn(self, qps: int, *, ours: bool) -> None:
        """Pods anywhere, then crowds on one node: from the creation of the first to the bind of the last."""
        self._number += 1
        with self.arena.scheduling(qps, ours=ours):
            self._bind(WARM_UP, "warm")
            self.arena.audit.calls()
            self._note("rate", PODS_OF_A_TURN / self._bind(PODS_OF_A_TURN, "pod"), ours=ours)
            for crowd in range(CROWDS):
                self._note("crowd", self._bind(CROWD, f"crowd-{crowd}", node=CROWDED), ours=ours)
            if ours:
                self.calls += self.arena.audit.calls()
                self.bound += PODS_OF_A_TURN + CROWDS * CROWD

    def _note(self, what: str, found: float, *, ours: bool) -> None:
        self.results.setdefault((what, ours), []).append(found)

    def _bind(self, count: int, what: str, node: str | None = None) -> float:
        """Seconds until this many pods were bound; they are removed afterwards."""
        pods = [f"{self.prefix}-{self._number}-{what}-{number}" for number in range(count)]
        begin = SystemClock().monotonic()
        self.arena.create(gpu_pod(pod, node=node) for pod in pods)
        last = max(self.arena.sightings.at(pod, "bound") for pod in pods)
        self.arena.remove(pods)
        return last - begin


MEASURE: Final = Measure(
    "schedule", (*_RATES.values(), _CROWD, _CALLS, _SLOW), measure, on_cluster=True, prepare=program
)
