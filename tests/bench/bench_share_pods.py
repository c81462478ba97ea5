"""Pods with shares through our chain on a real cluster: forty at once on one node, and a thousand in bursts.

A burst loses some of its pods as soon as they are created. Of the others it is read what their containers
see: the GPU that the extender assigned, and the memory that they ask for, or else they are counted.
"""

import statistics
from collections.abc import Iterator
from contextlib import closing
from itertools import cycle, islice
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from cluster import names
from cluster.kube.interface import Selection
from cluster.kube.resources import PODS
from cluster.objects.assignment import readable_assignment_of
from cluster.objects.pods import Pod
from devcluster import probe
from devcluster.demo.access import administrator
from devcluster.product import Parts
from tests.bench.lab import NODES, Lab
from tests.bench.measure import Measure
from tests.bench.pods import NAMESPACE
from tests.bench.rows import Kind, Row, Target

BURST: Final = 40
TURNS: Final = 3
PODS_COUNT: Final = 1000
DELETED: Final = 5
"""Every so manieth pod of a burst is deleted as soon as all are created."""
SIZES: Final = (1024, 2048, 3072, 4096, 6144)
"""MiB, one pod after the other."""
_LABEL: Final = "bench-shares"
_RUNNING: Final = Kind(
    "share-pods-running",
    f"{BURST} pods with a share at once onto one node: created to the last Running, median of {TURNS}",
    "s",
    "pods without GPU on the same node, default scheduler",
    target=Target(ratio=2),
)
_WRONG: Final = Kind(
    "share-pods-wrong",
    f"{PODS_COUNT:,} pods with a share in bursts of {BURST}, every {DELETED}th deleted meanwhile: containers"
    " that see another GPU than assigned, or another limit than theirs",
    "pods",
    target=Target(value=0),
)
_UNKNOWN: Final = Kind(
    "share-pods-unknown",
    "the same: questions of the kubelets (GetPreferredAllocation) about a pod that the agent did not know",
    "questions",
    target=Target(value=0),
)


def measure(lab: Lab) -> Iterator[Row]:
    """All rows."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(TURNS):
        for shares in (True, False):
            seconds[shares].append(_together(lab, turn, shares=shares))
    yield _RUNNING.row(statistics.median(seconds[True]), statistics.median(seconds[False]))
    before = _unknown(lab.standing.parts)
    yield _WRONG.row(sum(_burst(lab, number) for number in range(PODS_COUNT // BURST)))
    yield _UNKNOWN.row(_unknown(lab.standing.parts) - before)


def _together(lab: Lab, turn: int, *, shares: bool) -> float:
    """Seconds from the creation of pods on one node until the last of them ran."""
    ground = lab.standing.ground
    kind = "share" if shares else "plain"
    there = {"nodeSelector": {"kubernetes.io/hostname": NODES[0]}}
    bodies = [
        _body(f"{kind}-{turn}-{number}", memory if shares else 0, there)
        for number, memory in enumerate(islice(cycle(SIZES), BURST))
    ]
    last = max(birth.running for birth in ground.bear(*bodies))
    ground.remove_all(body["metadata"]["name"] for body in bodies)
    return last


def _burst(lab: Lab, number: int) -> int:
    """How many containers of one burst see something else than they should."""
    ground = lab.standing.ground
    bodies = [
        _body(f"burst-{number}-{index}", memory) for index, memory in enumerate(islice(cycle(SIZES), BURST))
    ]
    pods = ground.create(*bodies)
    ground.remove_all(pods[::DELETED])
    del pods[::DELETED]
    for name in pods:
        ground.birth(name)
    seen = _seen(lab)
    with closing(administrator(lab.standing.cluster)) as kube:
        found = {pod.metadata.name: pod for pod in kube.list(PODS, Selection(namespace=NAMESPACE)).items}
    ground.remove_all(pods)
    return sum(not _is_right(found[name], seen.get(name)) for name in pods)


def _is_right(pod: Pod, seen: probe.Sight | None) -> bool:
    (container,) = pod.spec.containers or ()
    limits = (container.resources.limits if container.resources else None) or {}
    assigned = readable_assignment_of(pod).get("main", ())
    return (
        seen is not None
        and len(assigned) == 1
        and seen.uuids == tuple(assigned)
        and len(seen.gpu_minors) == 1
        and seen.env.get(names.GPU_MEMORY_VARIABLE) == str(limits.get(names.GPU_MEMORY))
    )


def _seen(lab: Lab) -> dict[str, probe.Sight]:
    """Pod -> what its container has printed."""
    which = ("--namespace", NAMESPACE, "--selector", f"{_LABEL}=true")
    text = lab.standing.cluster.kubectl(
        "logs", *which, "--prefix", "--tail=-1", f"--max-log-requests={2 * BURST}"
    )
    found: dict[str, probe.Sight] = {}
    for line in text.splitlines():
        source, _, rest = line.partition("] ")
        if sight := probe.parse_sight(rest):
            found[source.split("/")[1]] = sight
    return found


def _unknown(parts: Parts) -> int:
    """Questions so far that the agents did not answer with what was assigned."""
    found = 0.0
    for node in NODES:
        _, text = parts.ask(parts.agent(node), "/metrics")
        for family in text_string_to_metric_families(text):
            found += sum(
                sample.value
                for sample in family.samples
                if sample.name.endswith("_agent_admissions_total") and sample.labels["verdict"] != "assigned"
            )
    return int(found)


def _body(name: str, memory: int, spec: dict[str, Any] | None = None) -> dict[str, Any]:
    """A pod with a share of so many MiB; without a GPU if it is 0."""
    extra = {} if memory else {"schedulerName": "default-scheduler"}
    body = probe.pod(name, [probe.container("main")], extra=extra | (spec or {}))
    body["metadata"]["labels"] = {_LABEL: "true"}
    if memory:
        limits = {names.GPU_RESOURCE: "1", names.GPU_MEMORY: str(memory)}
        body["spec"]["containers"][0]["resources"] = {"limits": limits}
    return body


MEASURE: Final = Measure("share-pods", (_RUNNING, _WRONG, _UNKNOWN), measure, on_cluster=True)
