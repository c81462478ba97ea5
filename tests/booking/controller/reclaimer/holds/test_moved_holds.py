"""While no pod has been evicted, a hold moves to devices that have become free without victims (law L3)."""

import pytest

from booking.controller.reclaimer.holds.hold_controller import BIND_DEADLINE
from booking.eviction.settings import EvictionSettings
from cluster import event_reasons, names
from cluster.kube.resources import PODS
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    """Alice's booked pod waits; ``b3`` has its notice to leave for it in five minutes."""
    cluster = FakeCluster(terms=EvictionSettings(notice_seconds=300)).contended()
    cluster.reconcile(2)
    return cluster


def test_a_gpu_that_becomes_free_during_the_notice_spares_the_victim(cluster: FakeCluster) -> None:
    assert cluster.annotation("b3", names.NOTICE)
    cluster.gone("b0")
    cluster.after(1)
    assert (cluster.kept().devices, cluster.kept().victims) == (("GPU-n0-0",), ())
    cluster.after(1)
    assert cluster.annotation("b3", names.NOTICE) is None
    assert cluster.reasons("b3") == [event_reasons.EVICTION_NOTICE, event_reasons.EVICTION_WITHDRAWN]
    cluster.bind("a", 0)
    cluster.after(400)
    assert cluster.evicted() == []


def test_a_gpu_that_becomes_free_at_the_last_moment_spares_the_victim(cluster: FakeCluster) -> None:
    cluster.gone("b0")
    cluster.after(300)
    cluster.after(1)
    assert cluster.evicted() == []
    assert cluster.kept().victims == ()


def test_a_hold_does_not_move_once_its_victim_has_been_evicted(cluster: FakeCluster) -> None:
    cluster.after(300)
    assert cluster.evicted() == ["b3"]
    cluster.gone("b0")
    cluster.after(1)
    assert cluster.kept().devices == ("GPU-n0-3",)


def test_a_free_gpu_that_another_booked_pod_needs_moves_no_hold(cluster: FakeCluster) -> None:
    cluster.book("b-2")
    cluster.waiting("c")
    cluster.gone("b0")
    cluster.after(1)
    assert cluster.held("c") is None
    assert cluster.kept().victims == ("uid-b3",)


def test_one_of_two_waiting_pods_takes_the_gpu_that_became_free(cluster: FakeCluster) -> None:
    cluster.book("b-2")
    cluster.waiting("c")
    cluster.reconcile(2)
    assert cluster.kept("c").victims == ("uid-b2",)
    cluster.gone("b0")
    cluster.after(1)
    cluster.after(1)
    assert sorted([cluster.kept("a").victims, cluster.kept("c").victims]) == [(), ("uid-b2",)]
    assert cluster.annotation("b3", names.NOTICE) is None
    assert cluster.annotation("b2", names.NOTICE)


def test_a_pod_of_two_gpus_moves_to_its_own_free_device_and_another() -> None:
    cluster = FakeCluster(terms=EvictionSettings(notice_seconds=300))
    cluster.add_node()
    cluster.fill()
    cluster.gone("b3")
    cluster.book(count=2)
    cluster.waiting("a", 2)
    cluster.reconcile()
    cluster.after(BIND_DEADLINE)
    assert cluster.kept().victims == ("uid-b2",)
    cluster.gone("b0")
    cluster.after(1)
    assert (sorted(cluster.kept().devices), cluster.kept().victims) == (["GPU-n0-0", "GPU-n0-3"], ())


def test_a_refused_move_is_retried(cluster: FakeCluster) -> None:
    cluster.gone("b0")
    cluster.sync()
    raw = cluster.kube.raw(PODS, "a", namespace="default")
    cluster.kube.put(PODS, raw | {"status": {"phase": "Pending", "message": "somebody writes to it"}})
    cluster.reclaimer.reconcile()
    assert cluster.kept().victims == ("uid-b3",)
    cluster.after(1)
    assert cluster.kept().victims == ()
