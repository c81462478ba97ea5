"""The search of room for a share finds on many nodes what it finds where it looks closely at all of them."""

from collections.abc import Mapping
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from booking.controller.reclaimer.planning.node_candidates import NodeCandidates, PlanningInputs
from booking.controller.reclaimer.planning.share_search import ShareSearch
from booking.controller.reclaimer.planning.waiting_pod import waiting_pod
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.eviction.holder_cache import HolderCache
from cluster.decide.eviction.victim_selection import VictimSelection
from cluster.decide.scheduler_filters import checker_for
from cluster.objects.share_request import Slot
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH, a_pod, shared_gpu

MIB = 80_000
NODES = ("n0", "n1", "n2")
FULL = ((0,), (30_000, 50_000), (10_000, 30_000, 40_000), (40_000, 40_000), (20_000, 25_000))
"""MiB of the shares of one GPU; 0 for all of it."""
POD = st.tuples(st.integers(0, 300), st.sampled_from(("runs", "runs", "runs", "leaves", "stays", "new")))
"""Minutes that it has run, and what becomes of it."""
GPU = st.tuples(st.sampled_from(FULL), st.tuples(POD, POD, POD))


class Everywhere(NodeCandidates):
    """Knows of no node that it is far from the best."""

    def least_share_losses(self, model: str, slot: Slot) -> dict[str, int]:
        return dict.fromkeys(super().least_share_losses(model, slot), 0)

    def least_share_loss(self, node: str, model: str, slot: Slot) -> int | None:
        return None if super().least_share_loss(node, model, slot) is None else 0


def add(cluster: FakeCluster, name: str, memory: int, pod: tuple[int, str]) -> None:
    """A pod on a GPU: ``n1-0-b2`` is the third on the first GPU of n1."""
    node, index, _ = name.split("-")
    minutes, fate = pod
    builder = a_pod(name).of("bob")
    builder = builder.shares(memory=memory) if memory else builder.asks(1)
    builder = builder.on(node, {"main": (f"GPU-{node}-{index}",)})
    builder = builder.of_a_daemon_set() if fate == "stays" else builder
    builder = builder.terminating() if fate == "leaves" else builder
    text = (EPOCH - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"phase": "Running"} if fate == "new" else {"phase": "Running", "startTime": text}
    cluster.create(builder, {"status": status})


def best(snapshot: ReclaimerSnapshot, candidates: NodeCandidates) -> VictimSelection | None:
    pod = snapshot.pods["uid-a"]
    asks = waiting_pod(pod, snapshot, checker_for(pod, snapshot.cluster_objects))
    search = ShareSearch(candidates)
    return None if search.free(asks) else search.best(asks)


@given(
    gpus=st.lists(GPU, min_size=2 * len(NODES), max_size=2 * len(NODES)),
    wanted=st.sampled_from((10_000, 36_000, 60_000)),
    later=st.integers(0, 5),
)
def test_l3_no_node_is_left_out_that_would_be_better(
    gpus: list[tuple[tuple[int, ...], tuple[tuple[int, str], ...]]], wanted: int, later: int
) -> None:
    cluster, kept = FakeCluster(), HolderCache()
    for node in NODES:
        cluster.add_node(node, *(shared_gpu(index, node, memory=MIB) for index in range(2)))
    cluster.book(memory=wanted)
    cluster.create(a_pod("a").of("alice").shares(memory=wanted))
    for number, (shares, pods) in enumerate(gpus):
        for place, memory in enumerate(shares):
            if number < len(gpus) - later or place:
                add(cluster, f"{NODES[number // 2]}-{number % 2}-b{place}", memory, pods[place])
    compare(cluster, kept)
    for number, (shares, pods) in enumerate(gpus[len(gpus) - later :], len(gpus) - later):
        cluster.clock.advance(600)
        if shares[0]:
            add(cluster, f"{NODES[number // 2]}-{number % 2}-b0", shares[0], pods[0])
        compare(cluster, kept)


def compare(cluster: FakeCluster, kept: HolderCache) -> None:
    cluster.renew()
    snapshot = cluster.snapshot()
    found: Mapping[str, VictimSelection | None] = {
        "kept": best(snapshot, NodeCandidates(snapshot, PlanningInputs(), kept)),
        "afresh": best(snapshot, NodeCandidates(snapshot, PlanningInputs(), HolderCache())),
    }
    assert (
        dict.fromkeys(found, best(snapshot, Everywhere(snapshot, PlanningInputs(), HolderCache()))) == found
    )
