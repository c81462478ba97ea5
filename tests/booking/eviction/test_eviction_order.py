"""Which pod would be evicted next: the reclaimer's own choice, one after the other."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from booking.controller.reclaimer import snapshot
from booking.controller.reclaimer.planning.node_candidates import NodeCandidates, PlanningInputs
from booking.eviction.eviction_order import NextVictim, order, why
from booking.eviction.holder_cache import HolderCache
from cluster import names
from cluster.fake.merging import merged
from cluster.kube.resources import BOOKINGS, NODES, PODS
from cluster.objects.pods import Pod
from tests.booking.eviction.fake_cluster import HOUR, FakeCluster, holding, started
from tests.fakes.objects import A100, A6000, EPOCH, a100, a_booking, a_node, a_pod, shared_gpu

JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
FLOW = {"apiVersion": "example.com/v1", "kind": "Flow", "name": "f", "uid": "f", "controller": True}


def following(cluster: FakeCluster, **named: frozenset[str]) -> tuple[NextVictim, ...]:
    """The order now."""
    return order(cluster.now(), **named)


def uids(found: tuple[NextVictim, ...], model: str = A100) -> list[str]:
    return [one.uid.removeprefix("uid-") for one in found if one.model == model]


def test_for_each_model_the_pod_that_loses_least_is_first() -> None:
    cluster = FakeCluster()
    cluster.run("long", "n0", 0, worked=9)
    cluster.run("short", "n1", 0, worked=1)
    cluster.run("other", "n1", 2)
    found = following(cluster)
    assert (uids(found), uids(found, A6000)) == (["short", "long"], ["other"])
    assert [one.free for one in found if one.model == A100] == [2, 2]
    assert why(found[0], position=1) == (
        "No booking covers it, and its eviction would lose 1 hour of GPU time: the least."
    )


def test_booked_pods_and_those_that_leave_already_are_not_in_the_order() -> None:
    cluster = FakeCluster()
    cluster.run("booked", "n0", 0)
    cluster.run("going", "n1", 0)
    now = cluster.clock.now()
    cluster.cache.of(BOOKINGS).upsert(a_booking(start=now, end=now + HOUR))
    assert uids(following(cluster, excluded=frozenset({"uid-going"}))) == []
    assert uids(following(cluster, nodes=frozenset({"n0"}))) == []
    assert uids(following(cluster)) == ["going"]


def test_everything_about_a_pod_is_reported_for_each_of_its_models() -> None:
    cluster = FakeCluster()
    cluster.run("both", "n0", 0, 1, 2, worked=2, evictions=3)
    both = {"uid": "uid-both", "node": "n0", "lost": 6 * HOUR, "evictions": 3}
    assert following(cluster) == (
        NextVictim(model=A100, gpus=2, free=2, **both),
        NextVictim(model=A6000, gpus=1, free=1, **both),
    )


def test_what_a_controller_loses_with_a_pod_counts_and_is_said() -> None:
    cluster = FakeCluster()
    cluster.run("long", "n0", 0, worked=3)
    for name, node, index, kind in (("a", "n0", 1, JOB), ("b", "n1", 1, JOB), ("c", "n1", 0, FLOW)):
        saved = holding(name, node, index).with_annotation(names.CHECKPOINT_AT, EPOCH.isoformat())
        change = {"metadata": {"ownerReferences": [kind]}, "status": {"startTime": EPOCH - 2 * HOUR}}
        cluster.cache.of(PODS).upsert(msgspec.convert(merged(saved.raw, change), Pod))
    found = following(cluster)
    assert uids(found) == ["c", "long", "a", "b"]
    assert why(found[0], position=1) == (
        "No booking covers it, and its eviction would lose 2 hours of GPU time: the least. That is all of "
        "its work, saved or not, since nothing is known to replace the pods of a Flow."
    )
    assert why(found[2], position=3) == (
        "No booking covers it, and its eviction would lose 4 hours of GPU time: the third least. That is all "
        "work of 2 pods, saved or not, since its Job is not known, and may fail with it."
    )


def test_devices_held_for_a_waiting_pod_are_not_free() -> None:
    cluster = FakeCluster()
    cluster.run("one", "n0", 0)
    cluster.cache.of(PODS).upsert(a_pod("waiting").of("bob").asks(1).kept("n1", "GPU-n1-0").obj)
    assert [one.free for one in following(cluster)] == [2]


def test_pods_that_share_a_gpu_are_in_the_order_together_by_what_all_of_them_lose() -> None:
    cluster = FakeCluster(n0=(a100(0), shared_gpu(1)))
    cluster.run("alone", "n0", 0, worked=2)
    for name, memory, worked in (("half", 40_000, 2), ("quarter", 20_000, 1)):
        pod = a_pod(name).of("bob").shares(memory=memory).on("n0", {"main": ("GPU-n0-1",)})
        cluster.cache.of(PODS).upsert(started(pod, EPOCH - worked * HOUR))
    found = following(cluster)
    assert uids(found) == ["half", "quarter", "alone"]
    assert [(one.sharers, one.is_first) for one in found] == [(1, True), (1, False), (0, True)]
    assert why(found[0], position=1) == (
        "No booking covers it, and the eviction of it and 1 other pod with a share of the same GPU would "
        "lose 1 hour 15 minutes of GPU time: the least."
    )


def test_among_equally_cheap_pods_the_newest_is_first_and_then_the_lowest_uid() -> None:
    cluster = FakeCluster()
    for name, hours, node, index in (("a", 2, "n0", 0), ("c", 1, "n1", 0), ("b", 1, "n0", 1)):
        saved = holding(name, node, index).with_annotation(names.CHECKPOINT_AT, EPOCH.isoformat())
        cluster.cache.of(PODS).upsert(started(saved, EPOCH - hours * HOUR))
    assert uids(following(cluster)) == ["b", "c", "a"]


def test_a_pod_whose_devices_are_all_unhealthy_frees_nothing_and_is_not_in_the_order() -> None:
    cluster = FakeCluster()
    cluster.cache.of(NODES).upsert(a_node("n0", a100(0, health="unhealthy"), a100(1), version=2))
    cluster.run("unhealthy", "n0", 0)
    cluster.run("half", "n0", 1)
    assert uids(following(cluster)) == ["half"]


@given(st.lists(st.tuples(st.sampled_from(("n0", "n1")), st.integers(0, 2), st.integers(0, 9)), max_size=6))
def test_the_first_is_the_pod_that_the_reclaimer_would_choose(running: list[tuple[str, int, int]]) -> None:
    cluster = FakeCluster()
    for node, index, worked in dict.fromkeys(running):
        cluster.run(f"p-{node}-{index}", node, index, worked=worked)
    seen = snapshot.take(cluster.cache, cluster.clock)
    candidates = NodeCandidates(seen, PlanningInputs(), HolderCache())
    found = following(cluster)
    for model in (A100, A6000):
        free = {node: set(candidates.candidate(node, model).free) for node in ("n0", "n1")}
        choices = [
            choice
            for node in ("n0", "n1")
            if (choice := candidates.choice(node, model, len(free[node]) + 1)) and choice.victims
        ]
        best = min(choices, key=lambda choice: choice.rank, default=None)
        assert uids(found, model)[:1] == ([best.victims[0].uid.removeprefix("uid-")] if best else [])
