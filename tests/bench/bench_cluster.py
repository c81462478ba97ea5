"""A whole Kubernetes: how soon it stands, how soon a pod runs through our chain, how soon an agent is back.

Needs root and the binaries (``make binaries``). The cluster is called ``bench``.
"""

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cluster import names
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.fakenvml import default_gpus
from devcluster.parts import Parts
from devcluster.spec import ClusterSpec, NodeSpec
from devcluster.waiting import Stopwatch
from tests.bench.bench_agent import measure as measure_agent
from tests.bench.pods import Birth, Ground, on_ground
from tests.bench.table import Floor, Row, percentile

NODES = ("node-a", "node-b")
PODS = 24
WARM_UP = 2
BURST = 8
BURSTS = 3
CHAIN_FLOOR = "pods without GPU, default scheduler"


def measure() -> Iterator[Row]:
    """Start, parts, pods, agent."""
    spec = ClusterSpec(
        name="bench",
        nodes=tuple(NodeSpec(name=name, gpus=default_gpus(index)) for index, name in enumerate(NODES)),
    )
    watch = Stopwatch()
    with Cluster.start(spec) as cluster:
        yield Row(f"cluster: start until {len(NODES)} nodes are Ready", watch.seconds, "s")
        parts = Parts(cluster)
        loading = _loading()
        watch = Stopwatch()
        parts.deploy()
        yield Row("our parts: RBAC, 2 agents, extender, scheduler until ready", watch.seconds, "s", loading)
        with on_ground(cluster) as ground:
            yield from _one_by_one(ground, [parts.extender().pid, *(parts.agent(node).pid for node in NODES)])
            yield from _burst(ground)
        yield from _inside(parts)
        yield from measure_agent(cluster, NODES[0])


def _loading() -> Floor:
    watch = Stopwatch()
    for module in ("deviceplugin.__main__", "deviceplugin.__main__", "extender.__main__"):
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return Floor(watch.seconds, "Python loading the three programs, one after the other")


def _body(name: str, *, gpus: int) -> dict[str, Any]:
    extra = {} if gpus else {"schedulerName": "default-scheduler"}
    return probe.pod(name, [probe.container("main", gpus=gpus)], extra=extra)


def _one_by_one(ground: Ground, parts: list[int]) -> Iterator[Row]:
    ours: list[Birth] = []
    floor: list[Birth] = []
    worked: dict[int, list[float]] = {0: [], 1: []}
    for number in range(WARM_UP + PODS):
        for births, gpus in ((ours, 1), (floor, 0)):
            name = f"one-{gpus}-{number}"
            before = sum(map(processor_seconds, parts))
            (birth,) = ground.bear(_body(name, gpus=gpus))
            ground.remove(name)
            worked[gpus].append(sum(map(processor_seconds, parts)) - before)
            births.append(birth)
    ours, floor = ours[WARM_UP:], floor[WARM_UP:]
    for percent in (50, 95):
        bound = [percentile([b.bound for b in births], percent) for births in (ours, floor)]
        running = [percentile([b.running for b in births], percent) for births in (ours, floor)]
        yield _against(f"pod with one GPU: created to bound, p{percent} of {PODS}", bound)
        yield _against(f"pod with one GPU: created to Running, p{percent} of {PODS}", running)
        yield _against(
            f"pod with one GPU: bound to Running, p{percent} of {PODS}",
            [percentile([b.running - b.bound for b in births], percent) for births in (ours, floor)],
        )
    ours_worked, floor_worked = (statistics.fmean(worked[gpus]) for gpus in (1, 0))
    yield _against(
        "processor time of the extender and both agents while a pod comes and goes, mean",
        [ours_worked, floor_worked],
    )


def processor_seconds(pid: int) -> float:
    """Processor time that a process has taken so far (to 10 ms)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _burst(ground: Ground) -> Iterator[Row]:
    ours: list[float] = []
    floor: list[float] = []
    for burst in range(BURSTS):
        for last, gpus in ((ours, 1), (floor, 0)):
            bodies = [_body(f"burst-{gpus}-{burst}-{number}", gpus=gpus) for number in range(BURST)]
            last.append(max(birth.running for birth in ground.bear(*bodies)))
            for body in bodies:
                ground.remove(body["metadata"]["name"])
    yield _against(
        f"{BURST} pods with one GPU at once: created to the last Running, median of {BURSTS}",
        [statistics.median(ours), statistics.median(floor)],
    )


def _against(what: str, values: list[float]) -> Row:
    ours, floor = values
    return Row(what, 1000 * ours, "ms", Floor(1000 * floor, CHAIN_FLOOR))


def _inside(parts: Parts) -> Iterator[Row]:
    """What our parts took of it, by their own clocks: means over all pods above."""
    extender = parts.extender()
    agents = [parts.agent(node) for node in NODES]
    pods = WARM_UP + PODS + BURSTS * BURST
    asking = parts.metric(extender, "gpu_booking_extender_request_seconds_sum")
    yield Row("of it: all calls of the extender, mean per pod", 1000 * asking / pods, "ms")
    waited = sum(parts.metric(agent, "gpu_booking_agent_admission_seconds_sum") for agent in agents)
    count = sum(parts.metric(agent, "gpu_booking_agent_admission_seconds_count") for agent in agents)
    yield Row("of it: GetPreferredAllocation, mean per pod", 1000 * waited / max(count, 1), "ms")
    for part, name in ((extender, "extender"), (agents[0], "a node agent")):
        size = parts.metric(part, "process_resident_memory_bytes") / 2**20
        yield Row(f"memory of {name} after all that", size, "MiB")
    if not count:
        raise RuntimeError(f"No agent was asked about {names.GPU_RESOURCE}: the pods did not take our way.")
