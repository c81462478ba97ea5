"""Pods through our chain on a real cluster: one after the other, and eight at once.

The floor is pods without a GPU that the default scheduler binds, in turns with ours, on the same nodes.
"""

import os
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from cluster import names
from devcluster import probe
from devcluster.product import Parts
from tests.bench.lab import NODES, Lab
from tests.bench.measure import Measure
from tests.bench.pods import Birth, Ground
from tests.bench.rows import Kind, Row
from tests.bench.table import percentile

PODS: Final = 24
WARM_UP: Final = 2
BURST: Final = 8
BURSTS: Final = 3
PERCENTS: Final = (50, 95)
_FLOOR: Final = "pods without GPU, default scheduler"
_SPANS: Final = {
    "bound": ("created to bound", lambda birth: birth.bound),
    "running": ("created to Running", lambda birth: birth.running),
    "start": ("bound to Running", lambda birth: birth.running - birth.bound),
}
_TIMES: Final = {
    (span, percent): Kind(
        f"pod-{span}-p{percent}", f"pod with one GPU: {description}, p{percent} of {PODS}", "ms", _FLOOR
    )
    for percent in PERCENTS
    for span, (description, _) in _SPANS.items()
}
_PROCESSOR: Final = Kind(
    "pod-processor-time",
    "processor time of the extender and both agents while a pod comes and goes, mean",
    "ms",
    _FLOOR,
)
_BURST: Final = Kind(
    "pod-burst-running",
    f"{BURST} pods with one GPU at once: created to the last Running, median of {BURSTS}",
    "ms",
    _FLOOR,
)
_EXTENDER: Final = Kind("pod-extender-time", "of it: all calls of the extender, mean per pod", "ms")
_PREFERRED: Final = Kind("pod-preferred-time", "of it: GetPreferredAllocation, mean per pod", "ms")
_MEMORY: Final = (
    Kind("memory-extender", "memory of the extender after all that", "MiB"),
    Kind("memory-agent", "memory of a node agent after all that", "MiB"),
)


def measure(lab: Lab) -> Iterator[Row]:
    """All rows."""
    parts, ground = lab.standing.parts, lab.standing.ground
    yield from _one_by_one(ground, [parts.extender().pid, *(parts.agent(node).pid for node in NODES)])
    yield from _burst(ground)
    yield from _inside(parts)


def _body(name: str, *, gpus: int) -> dict[str, Any]:
    extra = {} if gpus else {"schedulerName": "default-scheduler"}
    return probe.pod(name, [probe.container("main", gpus=gpus)], extra=extra)


def _one_by_one(ground: Ground, parts: list[int]) -> Iterator[Row]:
    births: dict[int, list[Birth]] = {1: [], 0: []}
    worked: dict[int, list[float]] = {1: [], 0: []}
    for number in range(WARM_UP + PODS):
        for gpus in (1, 0):
            name = f"one-{gpus}-{number}"
            before = sum(map(processor_seconds, parts))
            births[gpus] += ground.bear(_body(name, gpus=gpus))
            ground.remove(name)
            worked[gpus].append(sum(map(processor_seconds, parts)) - before)
    yield from _times(births[1][WARM_UP:], births[0][WARM_UP:])
    yield _PROCESSOR.row(1000 * statistics.fmean(worked[1]), 1000 * statistics.fmean(worked[0]))


def _times(ours: Sequence[Birth], floor: Sequence[Birth]) -> Iterator[Row]:
    for (span, percent), kind in _TIMES.items():
        seconds = _SPANS[span][1]
        yield kind.row(
            *(1000 * percentile([seconds(birth) for birth in births], percent) for births in (ours, floor))
        )


def processor_seconds(pid: int) -> float:
    """Processor time that a process has used so far (to 10 ms)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _burst(ground: Ground) -> Iterator[Row]:
    last: dict[int, list[float]] = {1: [], 0: []}
    for burst in range(BURSTS):
        for gpus in (1, 0):
            bodies = [_body(f"burst-{gpus}-{burst}-{number}", gpus=gpus) for number in range(BURST)]
            last[gpus].append(max(birth.running for birth in ground.bear(*bodies)))
            ground.remove_all(body["metadata"]["name"] for body in bodies)
    yield _BURST.row(1000 * statistics.median(last[1]), 1000 * statistics.median(last[0]))


def _inside(parts: Parts) -> Iterator[Row]:
    """What our parts took of that time, by their own clocks: means over all pods above."""
    extender = parts.extender()
    agents = [parts.agent(node) for node in NODES]
    pods = WARM_UP + PODS + BURSTS * BURST
    asking = parts.metric(extender, "gpu_booking_extender_request_seconds_sum")
    yield _EXTENDER.row(1000 * asking / pods)
    waited = sum(parts.metric(agent, "gpu_booking_agent_admission_seconds_sum") for agent in agents)
    count = sum(parts.metric(agent, "gpu_booking_agent_admission_seconds_count") for agent in agents)
    yield _PREFERRED.row(1000 * waited / max(count, 1))
    for kind, part in zip(_MEMORY, (extender, agents[0]), strict=True):
        yield kind.row(parts.metric(part, "process_resident_memory_bytes") / 2**20)
    if not count:
        raise RuntimeError(f"No agent was asked about {names.GPU_RESOURCE}: the pods did not take our way.")


MEASURE: Final = Measure(
    "pods", (*_TIMES.values(), _PROCESSOR, _BURST, _EXTENDER, _PREFERRED, *_MEMORY), measure, on_cluster=True
)
