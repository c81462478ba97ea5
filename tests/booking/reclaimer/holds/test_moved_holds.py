"""While nobody has been evicted, a place without victims is taken instead of theirs (law L3)."""

import pytest

from booking.eviction_settings import EvictionSettings
from booking.reclaimer.holds.hold_controller import BIND_DEADLINE
from cluster import names
from cluster.kube.resources import PODS
from tests.booking.reclaimer.fake_cluster import FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    """Alice's booked pod waits; ``b3`` has its notice to leave for it in five minutes."""
    cluster = FakeCluster(terms=EvictionSettings(notice_seconds=300))
    cluster.add_node()
    cluster.fill()
    cluster.book()
    cluster.waiting("a")
    cluster.reconcile(2)
    return cluster


def hold_writes(cluster: FakeCluster) -> int:
    return sum(call.verb == "PATCH" and names.HOLD in str(call.body) for call in cluster.kube.calls)


def test_a_gpu_that_becomes_free_during_the_notice_spares_the_victim(cluster: FakeCluster) -> None:
    assert cluster.annotation("b3", names.NOTICE)
    cluster.gone("b0")
    cluster.after(1)
    assert (cluster.kept().devices, cluster.kept().victims) == (("GPU-n0-0",), ())
    cluster.after(1)
    assert cluster.annotation("b3", names.NOTICE) is None
    assert cluster.reasons("b3") == [names.EVICTION_NOTICE, names.EVICTION_WITHDRAWN]
    cluster.bind("a", 0)
    cluster.after(400)
    assert cluster.evicted() == []


def test_the_hold_moves_once_and_is_bound_to_as_any(cluster: FakeCluster) -> None:
    cluster.gone("b0")
    for _ in range(3):
        cluster.after(BIND_DEADLINE)
    assert hold_writes(cluster) == 2
    assert cluster.reasons("a") == [names.GPUS_KEPT, names.GPUS_KEPT]
    assert cluster.kept().devices == ("GPU-n0-0",)


def test_at_the_last_moment_of_the_notice_it_is_not_too_late(cluster: FakeCluster) -> None:
    cluster.gone("b0")
    cluster.after(300)
    cluster.after(1)
    assert cluster.evicted() == []
    assert cluster.kept().victims == ()


def test_once_the_victim_has_been_evicted_its_devices_are_waited_for(cluster: FakeCluster) -> None:
    cluster.after(300)
    assert cluster.evicted() == ["b3"]
    cluster.gone("b0")
    cluster.after(1)
    assert cluster.kept().devices == ("GPU-n0-3",)


def test_what_another_booked_pod_counts_on_ends_no_hold(cluster: FakeCluster) -> None:
    cluster.book("b-2")
    cluster.waiting("c")
    cluster.gone("b0")
    cluster.after(1)
    assert cluster.held("c") is None
    assert cluster.kept().victims == ("uid-b3",)


def test_of_two_that_wait_for_victims_one_takes_what_became_free(cluster: FakeCluster) -> None:
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


def test_a_gpu_of_a_node_that_is_barred_for_the_pod_ends_no_hold(cluster: FakeCluster) -> None:
    cluster.annotate("a", names.BARRED, "n1")
    cluster.add_node("n1")
    cluster.after(1)
    assert cluster.kept().victims == ("uid-b3",)


def test_a_pod_of_two_is_moved_where_its_own_free_device_and_another_are_enough() -> None:
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


def test_a_process_that_starts_again_during_the_notice_moves_as_well(cluster: FakeCluster) -> None:
    cluster.restart()
    cluster.gone("b0")
    cluster.reconcile(2)
    assert cluster.kept().victims == ()
    assert cluster.evicted() == []


def test_a_move_that_is_refused_is_tried_again(cluster: FakeCluster) -> None:
    cluster.gone("b0")
    cluster.sync()
    raw = cluster.kube.raw(PODS, "a", namespace="default")
    cluster.kube.put(PODS, raw | {"status": {"phase": "Pending", "message": "somebody writes to it"}})
    cluster.reclaimer.reconcile()
    assert cluster.kept().victims == ("uid-b3",)
    cluster.after(1)
    assert cluster.kept().victims == ()
