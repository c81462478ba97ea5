"""Pods with a GPU by a claim beside the same pods with ``nvidia.com/gpu``: one node of each kind, in turns.

A booked pod is measured from the eviction of its victim: the rule that keeps the device must be two seconds
old by then, which lies before it, and so within any notice.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Final

from cluster import names
from cluster.kube.interface import Kube
from cluster.kube.resources import NODES
from cluster.objects.inventory import inventory_of
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator, person
from devcluster.demo.rest import Rest
from devcluster.fakenvml import A100_80GB, gpu
from devcluster.product import Parts
from devcluster.spec import ClusterSpec, NodeSpec
from devcluster.wait import poll
from tests.bench import agent_image, bench_claims_memory, bench_claims_node
from tests.bench.bench_booked import A100
from tests.bench.claim_pods import FLOOR, GPUS, TEMPLATE, WAYS, body
from tests.bench.lab import POLICY, Lab
from tests.bench.measure import Measure
from tests.bench.pods import NAMESPACE, PATIENCE, Ground, on_ground
from tests.bench.rows import Kind, Row, Target
from tests.bench.table import percentile
from tests.clusters import own

PODS: Final = 24
WARM_UP: Final = 2
ROUNDS: Final = 10
PERCENTS: Final = (50, 95)
GRACE_MS: Final = 1000
"""Of every victim (``devcluster.probe``)."""
_MODELS: Final = {"claim": A100 + names.CLAIMED_MODEL, "resource": A100}
_RUNNING: Final = {
    percent: Kind(
        f"claims-running-p{percent}",
        f"pod with one GPU by a claim: created to Running, p{percent} of {PODS}",
        "ms",
        FLOOR,
        target=Target(ratio=1.25) if percent == 50 else None,
    )
    for percent in PERCENTS
}
_BOOKED: Final = {
    percent: Kind(
        f"claims-booked-p{percent}",
        f"booked pod with a claim: its victim's eviction to Running, 1 s of it grace, p{percent} of {ROUNDS}",
        "ms",
        FLOOR,
        target=Target(value=GRACE_MS + 1500) if percent == 50 else None,
    )
    for percent in PERCENTS
}


def measure(_lab: Lab) -> Iterator[Row]:
    """All rows, on a cluster of its own."""
    labels = {WAYS["claim"]: {names.DEVICE_PLUGIN: "dra"}}
    nodes = tuple(
        NodeSpec(
            name=name,
            gpus=tuple(gpu(A100_80GB, index, node=name) for index in range(GPUS)),
            labels=labels.get(name, {}),
        )
        for name in sorted(WAYS.values())
    )
    with Cluster.start(ClusterSpec(name=own("claims"), nodes=nodes)) as cluster:
        parts = Parts(cluster, claims=True)
        parts.deploy(server=POLICY)
        with on_ground(cluster) as ground, closing(administrator(cluster)) as kube:
            cluster.kubectl("create", "--namespace", NAMESPACE, "--filename", "-", given=json.dumps(TEMPLATE))
            _await_devices(kube)
            yield from _rows(_RUNNING, {way: _running(ground, way) for way in WAYS})
            yield from _rows(_BOOKED, {way: _booked(cluster, parts, ground, way) for way in WAYS})
            yield from bench_claims_node.measure(parts, ground, kube)
        yield from bench_claims_memory.measure(cluster, parts)


def _rows(kinds: Mapping[int, Kind], seconds: Mapping[str, list[float]]) -> Iterator[Row]:
    for percent, kind in kinds.items():
        yield kind.row(*(1000 * percentile(seconds[way], percent) for way in WAYS))


def _await_devices(kube: Kube) -> None:
    def published() -> bool:
        found = {name: inventory_of(kube.get(NODES, name)) for name in WAYS.values()}
        by_claims = [one for one in found[WAYS["claim"]] if one.claimed_as]
        return len(by_claims) == GPUS == len(found[WAYS["resource"]])

    if not poll(published, seconds=PATIENCE, every=0.2):
        raise RuntimeError(f"The nodes do not offer their GPUs within {PATIENCE:.0f} s.")


def _running(ground: Ground, way: str) -> list[float]:
    """Seconds until each pod ran."""
    found: list[float] = []
    for number in range(WARM_UP + PODS):
        (birth,) = ground.bear(body(f"{way}-{number}", way))
        found.append(birth.running)
        ground.remove(f"{way}-{number}")
    return found[WARM_UP:]


def _booked(cluster: Cluster, parts: Parts, ground: Ground, way: str) -> list[float]:
    """Seconds from each eviction until alice's pod ran, who has booked one of the node's two GPUs."""
    with _booking(cluster, parts, _MODELS[way]) as alice:
        ground.bear(body(f"stays-{way}", way))
        found: list[float] = []
        for number in range(ROUNDS):
            victim, hers = f"victim-{way}-{number}", f"booked-{way}-{number}"
            ground.bear(body(victim, way, safe=True))
            (birth,) = ground.bear(body(hers, way), by=alice)
            found.append(ground.born(hers) + birth.running - ground.left(victim))
            ground.remove(hers)
            ground.await_return(victim)
            ground.remove(victim)
    ground.remove(f"stays-{way}")
    return found


@contextmanager
def _booking(cluster: Cluster, parts: Parts, model: str) -> Iterator[Kube]:
    """Alice, who has booked one GPU."""
    parts.people.admit("alice", NAMESPACE)
    rest = Rest(parts.booking_url, parts.people.token("alice", names.AUDIENCE))
    answer = rest.book(model=model, count=1, duration="P2D")
    if answer.is_refusal:
        raise RuntimeError(f"The bench may not book: {answer.body}")
    with closing(person(cluster, parts.people.token("alice"))) as alice:
        yield alice
    rest.release(answer.body["id"])


MEASURE: Final = Measure(
    "claims",
    (*_RUNNING.values(), *_BOOKED.values(), *bench_claims_node.KINDS, *bench_claims_memory.KINDS),
    measure,
    on_cluster=True,
    prepare=agent_image.libraries,
)
