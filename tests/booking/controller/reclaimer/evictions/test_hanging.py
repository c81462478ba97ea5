"""Victims that hang, and room that others take: a booked pod waits for neither indefinitely."""

from datetime import timedelta

import pytest

from booking.eviction.settings import EvictionSettings
from cluster import names
from cluster.decide.protection import HANGS_AFTER
from cluster.fake.merging import merged
from cluster.kube.resources import NODES
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import a_pod

GRACE = timedelta(seconds=30)


@pytest.fixture
def cluster(cluster: FakeCluster) -> FakeCluster:
    """``b3`` was evicted for alice's booked pod, with thirty seconds to stop, and does not."""
    cluster.reconcile(2)
    assert cluster.evicted() == ["b3"]
    until = cluster.pod("b3").metadata.deletion_timestamp
    assert until == cluster.clock.now() + GRACE
    return cluster


def test_a_hanging_victim_is_replaced_by_another(cluster: FakeCluster) -> None:
    cluster.after((GRACE + HANGS_AFTER).total_seconds() - 1)
    assert cluster.kept().victims == ("uid-b3",)
    cluster.after(1)
    cluster.reconcile(2)
    assert cluster.kept().victims == ("uid-b2",)
    assert cluster.evicted() == ["b3", "b2"]
    assert "default/b3 should have gone long ago" in " ".join(message for _, _, message in cluster.events)


def test_a_restarted_process_does_not_wait_from_the_beginning_again(cluster: FakeCluster) -> None:
    cluster.after((GRACE + HANGS_AFTER).total_seconds() - 1)
    cluster.restart()
    cluster.after(1)
    cluster.reconcile(2)
    assert cluster.kept().victims == ("uid-b2",)


def test_a_hanging_victim_that_ends_at_last_leaves_a_free_gpu(cluster: FakeCluster) -> None:
    cluster.after((GRACE + HANGS_AFTER).total_seconds())
    cluster.reconcile(2)
    cluster.gone("b3")
    cluster.book("b-2")
    cluster.waiting("c")
    cluster.reconcile(2)
    assert cluster.held("c") is None
    assert cluster.evicted() == ["b3", "b2"]


@pytest.fixture
def tight() -> FakeCluster:
    """Alice's pod needs half of the CPUs of either node; on each, bob's pod with a GPU has all of them."""
    cluster = FakeCluster(terms=EvictionSettings())
    cluster.cache.keep_scheduling_objects()
    for node in ("n0", "n1"):
        cluster.add_node(node)
        cluster.set_cpu(node, "8")
    cluster.opportunist("b0", 0, node="n0", minutes=1)
    cluster.opportunist("b1", 0, node="n1", minutes=60)
    cluster.book()
    cluster.waiting("a")
    for name, much in (("b0", "8"), ("b1", "8"), ("a", "4")):
        cluster.request_cpu(name, much)
    return cluster


def without_gpu(cluster: FakeCluster, name: str, node: str, cpu: str = "8") -> None:
    """The victim is gone, and the pod that came back without a GPU uses the node's CPUs already."""
    cluster.gone(name)
    cluster.create(a_pod(f"{name}-again").of("bob").on(node, {}), {"status": {"phase": "Running"}})
    cluster.request_cpu(f"{name}-again", cpu)


def test_a_node_whose_room_a_returned_victim_takes_is_barred_for_a_while(
    tight: FakeCluster,
) -> None:
    tight.reconcile()
    tight.after(3)
    assert tight.evicted() == ["b0"]
    without_gpu(tight, "b0", "n0")
    tight.opportunist("b2", 1, node="n0", minutes=0)
    tight.reconcile()
    assert tight.annotation("a", names.BARRED) == "n0"
    assert "Nothing is kept for it on node n0 for a while" in " ".join(
        message for _, _, message in tight.events
    )
    tight.reconcile(2)
    tight.after(3)
    assert tight.kept().node == "n1"


def test_each_node_costs_one_victim_however_often_its_room_is_taken(tight: FakeCluster) -> None:
    tight.request_cpu("a", "6")
    for name, node in (("b0", "n0"), ("b1", "n1")):
        tight.reconcile()
        tight.after(3)
        without_gpu(tight, name, node, cpu="2")
        tight.opportunist(f"{name}-new", 1, node=node, minutes=0)
        tight.request_cpu(f"{name}-new", "6")
        tight.reconcile(2)
    for _ in range(20):
        tight.after(3)
    assert tight.evicted() == ["b0", "b1"]
    assert tight.held() is None


def test_a_node_cordoned_in_the_meantime_is_not_barred(tight: FakeCluster) -> None:
    tight.reconcile()
    tight.after(3)
    tight.kube.put(NODES, merged(tight.kube.raw(NODES, "n0"), {"spec": {"unschedulable": True}}))
    tight.reconcile()
    assert tight.annotation("a", names.BARRED) is None
