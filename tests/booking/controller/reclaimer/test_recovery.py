"""After an outage of the API server no pod loses its GPU because one agent is back sooner than another."""

import pytest

from booking.controller.reclaimer.reclaimer import RECOVERS_WITHIN
from cluster.kube.resources import NODES
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import a_pod


@pytest.fixture
def cluster() -> FakeCluster:
    """Two full nodes; the cheapest pod is on the one whose agent renews last."""
    cluster = FakeCluster()
    for node in ("n0", "n1"):
        cluster.add_node(node)
    for index in range(4):
        cluster.opportunist(f"costly-{index}", index, node="n0", minutes=100)
        cluster.opportunist(f"cheap-{index}", index, node="n1", minutes=1 + index)
    cluster.reconcile()
    return cluster


def outage(cluster: FakeCluster) -> None:
    """A minute and a half without the API server, no pass meanwhile; one agent renews again at once."""
    cluster.clock.advance(90)
    cluster.lose_agent("n1")
    cluster.renew()


def test_l3_after_an_outage_plans_wait_until_every_agent_has_had_time_to_renew(cluster: FakeCluster) -> None:
    outage(cluster)
    cluster.book()
    cluster.create(a_pod("hers").of("alice").asks(1))
    cluster.reconcile(2)
    assert cluster.evictor.left == []

    cluster.start_agent("n1")
    cluster.reconcile(2)
    assert cluster.evictor.left == [("cheap-0", "evicted")]


def test_l3_a_hold_outlives_an_agent_that_could_not_renew(cluster: FakeCluster) -> None:
    cluster.book()
    cluster.create(a_pod("hers").of("alice").asks(1))
    cluster.reconcile(2)
    assert cluster.evictor.left == [("cheap-0", "evicted")]

    outage(cluster)
    cluster.reconcile(2)
    cluster.start_agent("n1")
    cluster.reconcile(2)
    assert cluster.evictor.left == [("cheap-0", "evicted")]
    assert [hold.node for hold in cluster.snapshot().holds.values()] == ["n1"]


@pytest.mark.parametrize(
    ("spec", "ready"),
    [
        ({}, "Unknown"),
        ({"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]}, "True"),
    ],
    ids=["not ready", "tainted"],
)
def test_l3_after_an_outage_plans_wait_for_a_node_that_is_not_ready_again_yet(
    cluster: FakeCluster, spec: dict[str, object], ready: str
) -> None:
    cluster.book()
    cluster.create(a_pod("hers").of("alice").asks(1))
    cluster.reclaimer.reconcile()
    cluster.reconcile()
    before = cluster.kube.raw(NODES, "n1")
    cluster.clock.advance(90)
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    cluster.kube.put(NODES, {**before, "spec": spec, "status": status})
    cluster.renew()
    cluster.reconcile(3)
    assert [hold.node for hold in cluster.snapshot().holds.values()] == ["n1"]

    cluster.kube.put(NODES, {**cluster.kube.raw(NODES, "n1"), "spec": {}, "status": {}})
    cluster.reconcile(3)
    assert cluster.evictor.left == [("cheap-0", "evicted")]


def test_plans_do_not_wait_longer_for_an_agent_that_stays_unresponsive(cluster: FakeCluster) -> None:
    outage(cluster)
    cluster.book()
    cluster.create(a_pod("hers").of("alice").asks(1))
    for _ in range(4):
        cluster.after(RECOVERS_WITHIN / 3)
    cluster.reconcile(2)
    assert [name for name, _ in cluster.evictor.left] == ["costly-0"]
