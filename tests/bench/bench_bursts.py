"""Bursts of pods onto exactly as many devices of two models: how many pods are sent to a taken device.

kube-scheduler asks filter about a pod before the bind of the previous one has arrived. A pod that is refused
waits for its backoff. The calls of filter beyond the first of each pod are counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, cycle
from statistics import median
from typing import Final

import urllib3
from prometheus_client.parser import text_string_to_metric_families

from cluster import names
from cluster.process.clock import SystemClock
from devcluster.product import extender
from tests.bench.arena import QPS, Arena, arena, gpu_pod
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.rows import Kind, Row, Target
from tests.bench.simulated import GPUS, describe, program
from tests.fakes.objects import A100, A6000, a100, a6000

SIZES: Final = (8, 16, 32)
"""Pods per burst."""
HOSTS: Final = 4
"""Nodes, each with as many devices of one model as of the other."""
TURNS: Final = 5
_COUNTER: Final = f"{names.METRICS_PREFIX}_extender_requests_total"
_LABELS: Final = {"verb": "filter", "status": "200"}
_SCENARIO: Final = (
    f"pods with one GPU at once, half of them for each of two models, onto exactly as many free devices of"
    f" {HOSTS} simulated nodes"
)
_TRIES: Final = {
    size: Kind(
        f"burst-{size}-tries",
        f"{size} {_SCENARIO}: questions to filter beyond the first, per 100 pods, of {TURNS} bursts",
        "tries",
        target=Target(value=2),
    )
    for size in SIZES
}
_BOUND: Final = {
    size: Kind(
        f"burst-{size}-bound",
        f"the same, {size} pods: created to the last bound, median of {TURNS}",
        "s",
        "the same without our extender, any device",
    )
    for size in SIZES
}


def measure(_lab: Lab) -> Iterator[Row]:
    """All sizes, in turns with our extender and without it."""
    found: dict[int, list[Burst]] = {size: [] for size in SIZES}
    floors: dict[int, list[Burst]] = {size: [] for size in SIZES}
    with arena(HOSTS) as place:
        _describe(place)
        bursts = Bursts(place)
        for _ in range(TURNS):
            with place.scheduling(QPS):
                for size in SIZES:
                    found[size].append(bursts.play(size, counts=True))
            with place.scheduling(QPS, asks="none"):
                for size in SIZES:
                    floors[size].append(bursts.play(size))
    for size in SIZES:
        tries = sum(one.questions - size for one in found[size])
        yield _TRIES[size].row(100 * tries / (TURNS * size))
        yield _BOUND[size].row(*(median(one.seconds for one in some[size]) for some in (found, floors)))


@dataclass(frozen=True, slots=True)
class Burst:
    """The result of one burst."""

    seconds: float
    """From the creation of the first pod to the bind of the last one."""
    questions: int
    """How often filter was called meanwhile; 0 if that was not counted."""


@dataclass
class Bursts:
    """Plays bursts one after the other."""

    place: Arena
    _numbers: Iterator[int] = field(default_factory=count, init=False)

    def play(self, size: int, *, counts: bool = False) -> Burst:
        """Fill the devices that are not meant for the burst, and play it; all pods are removed afterwards."""
        number = next(self._numbers)
        others = [
            (f"other-{number}-{node}-{model.lower()}-{index}", node, model)
            for node in self.place.nodes
            for model in (A100, A6000)
            for index in range((HOSTS * GPUS - size) // (2 * HOSTS))
        ]
        self.place.create(gpu_pod(name, node=node, model=model) for name, node, model in others)
        for name, _, _ in others:
            self.place.sightings.at(name, "Running")
        pods = [f"burst-{number}-{index}" for index in range(size)]
        earlier = self._filter_requests() if counts else 0
        begin = SystemClock().monotonic()
        models = cycle((A100, A6000))
        self.place.create(gpu_pod(name, model=next(models)) for name in pods)
        last = max(self.place.sightings.at(name, "bound") for name in pods)
        questions = self._filter_requests() - earlier if counts else 0
        self.place.remove([*pods, *(name for name, _, _ in others)])
        return Burst(last - begin, questions)

    def _filter_requests(self) -> int:
        url = f"http://{self.place.cluster.address}:{extender.PORT + 1}/metrics"
        text = urllib3.request("GET", url, timeout=10.0, retries=False).data.decode()
        samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        return int(sum(one.value for one in samples if (one.name, one.labels) == (_COUNTER, _LABELS)))


def _describe(place: Arena) -> None:
    """Give every node as many devices of one model as of the other."""
    for name in place.nodes:
        half = GPUS // 2
        devices = [a100(index, name) for index in range(half)]
        devices += [a6000(index, name) for index in range(half, GPUS)]
        describe(place.kube, name, devices)


MEASURE: Final = Measure(
    "bursts", (*_TRIES.values(), *_BOUND.values()), measure, on_cluster=True, prepare=program
)
