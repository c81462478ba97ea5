"""How much more memory an agent takes that gives its GPUs by claims. A part of ``bench_claims``.

One agent of its image on each of the two nodes, which change their ways after every round. So node and round
make no difference. What a process has mapped of files depends on what others have read, so what it has alone
(PSS without files) is measured besides.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import Final

from cluster import names
from cluster.kube.resources import NODES
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.product import Parts
from tests.bench import bench_agent_memory
from tests.bench.claim_pods import WAYS
from tests.bench.rows import Kind, Row, Target

ROUNDS: Final = 4
READINGS: Final = 5
"""Of each process, a second apart."""
LABELS: Final = {"claim": "dra", "resource": "ours"}
_MORE: Final = Kind(
    "claims-agent-memory",
    "agent, a minute after its start, 8 GPUs: resident memory with claims beyond that without, medians of"
    f" {ROUNDS} processes each",
    "MiB",
    target=Target(value=4),
)
_ALONE: Final = Kind(
    "claims-agent-memory-alone", "the same, memory that is not mapped from files (Pss_Anon)", "MiB"
)
KINDS: Final = (_MORE, _ALONE)


def measure(cluster: Cluster, parts: Parts) -> Iterator[Row]:
    """Both rows; no pod is there. The nodes stay as the last round leaves them."""
    rounds = [_round(cluster, parts, number) for number in range(ROUNDS)]
    for number, kind in enumerate(KINDS):
        claim, resource = (median(one[way][number] for one in rounds) for way in WAYS)
        yield kind.row(claim - resource)


def _round(cluster: Cluster, parts: Parts, number: int) -> dict[str, tuple[float, float]]:
    """Of an agent of each way: MiB that are resident, and those of them that are not mapped from files."""
    nodes, clock, never = tuple(WAYS.values()), SystemClock(), threading.Event()
    with ExitStack() as stack:
        pids: dict[str, int] = {}
        for way, node in zip(WAYS, nodes[::-1] if number % 2 else nodes, strict=True):
            parts.agent(node).kill()  # or it would begin again by itself when it sees the label
            _give(cluster, node, way)
            folder = cluster.state / f"memory-{number}-{node}"
            folder.mkdir()
            pids[way] = stack.enter_context(bench_agent_memory.another_agent(parts, folder, node))
        clock.wait(never, bench_agent_memory.MINUTE)
        found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
        for _ in range(READINGS):
            for way, pid in pids.items():
                found[way].append((bench_agent_memory.resident(pid), _alone(pid)))
            clock.wait(never, 1.0)
    return {
        way: (median(rss for rss, _ in both), median(own for _, own in both)) for way, both in found.items()
    }


def _give(cluster: Cluster, node: str, way: str) -> None:
    """Label a node: its agent gives its GPUs in this way when it starts again."""
    with closing(administrator(cluster)) as kube:
        kube.patch(NODES, node, {"metadata": {"labels": {names.DEVICE_PLUGIN: LABELS[way]}}})


def _alone(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss_Anon:")) / 1024
