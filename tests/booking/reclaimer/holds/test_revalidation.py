"""The check before anybody loses work: what a hold relies on is read again."""

import pytest

from booking.reclaimer.holds.hold_status import HoldStatus, hold_status
from cluster.fake.merging import merged
from cluster.kube.resources import NODES, PODS
from cluster.objects.hold import Hold
from tests.booking.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import A6000, EPOCH, a100

HOLD = Hold(node="n0", devices=("GPU-n0-0", "GPU-n0-1"), victims=("uid-b0", "uid-b1"), at=EPOCH)


@pytest.fixture
def cluster() -> FakeCluster:
    """Two devices of a node are kept for alice's pod; bob's two must leave."""
    cluster = FakeCluster()
    cluster.add_node()
    cluster.fill()
    cluster.book(count=2)
    cluster.waiting("a", 2)
    cluster.hold("a", HOLD)
    return cluster


def status_of(cluster: FakeCluster, hold: Hold = HOLD) -> HoldStatus:
    return hold_status(cluster.pod("a"), hold, cluster.snapshot())


def test_at_first_both_victims_are_there(cluster: FakeCluster) -> None:
    found = status_of(cluster)
    assert [pod.metadata.name for pod in found.victims] == ["b0", "b1"]
    assert (found.problem, found.complete, found.free) == (None, False, frozenset())


def test_a_victim_that_leaves_is_no_victim_any_more_but_holds_on(cluster: FakeCluster) -> None:
    cluster.kube.delete(PODS, "b0", namespace="default")
    found = status_of(cluster)
    assert [pod.metadata.name for pod in found.victims] == ["b1"]
    assert not found.complete


def test_it_is_complete_when_every_device_is_free(cluster: FakeCluster) -> None:
    cluster.gone("b0")
    assert not status_of(cluster).complete
    cluster.gone("b1")
    assert status_of(cluster) == HoldStatus(free=frozenset(HOLD.devices), complete=True)


def test_a_released_booking_ends_it(cluster: FakeCluster) -> None:
    cluster.end_booking()
    assert "not covered" in (status_of(cluster).problem or "")


def test_another_booked_model_ends_it(cluster: FakeCluster) -> None:
    cluster.book(count=2, model=A6000)
    assert "not one that the pod is to have" in (status_of(cluster).problem or "")


def test_a_device_that_becomes_unhealthy_ends_it(cluster: FakeCluster) -> None:
    cluster.add_node("n0", a100(0), a100(1, health="unhealthy", reason="XID 79"), a100(2), a100(3))
    assert "healthy" in (status_of(cluster).problem or "")


def test_a_device_that_nobody_knows_ends_it(cluster: FakeCluster) -> None:
    other = Hold(node="n0", devices=("GPU-n0-0", "GPU-n0-9"), victims=("uid-b0",), at=EPOCH)
    assert status_of(cluster, other).problem is not None


def test_a_node_that_is_cordoned_or_gone_ends_it(cluster: FakeCluster) -> None:
    cluster.kube.put(NODES, merged(cluster.kube.raw(NODES, "n0"), {"spec": {"unschedulable": True}}))
    assert "cordoned" in (status_of(cluster).problem or "")
    cluster.kube.delete(NODES, "n0")
    assert "gone" in (status_of(cluster).problem or "")


def test_an_unresponsive_agent_ends_it(cluster: FakeCluster) -> None:
    cluster.clock.advance(76)
    assert "unresponsive" in (status_of(cluster).problem or "")


def test_a_victim_that_is_booked_by_now_ends_it(cluster: FakeCluster) -> None:
    cluster.book("b-2", user="bob")
    assert "booked" in (status_of(cluster).problem or "")


def test_a_holder_that_is_no_victim_ends_it(cluster: FakeCluster) -> None:
    cluster.gone("b1")
    cluster.opportunist("late", 1)
    assert "another pod" in (status_of(cluster).problem or "")


def test_a_device_that_an_older_hold_keeps_for_another_pod_ends_it(cluster: FakeCluster) -> None:
    cluster.book(count=4)
    cluster.waiting("rival", 2)
    cluster.hold(
        "rival", Hold(node="n0", devices=("GPU-n0-1",), victims=("uid-b1",), at=EPOCH.replace(hour=8))
    )
    assert "kept for another pod" in (status_of(cluster).problem or "")
