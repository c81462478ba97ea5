"""Whether a held node has room for its pod: victims that hold no device of it, other holds, and intruders."""

import pytest

from booking.controller.reclaimer.holds.hold_status import HoldStatus, hold_status
from cluster.kube.resources import PODS
from cluster.objects.hold import Hold
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH, a_pod

HOLD = Hold(node="n0", devices=("GPU-n0-0",), victims=("uid-b", "uid-c"), at=EPOCH)


@pytest.fixture
def cluster() -> FakeCluster:
    """A node of 8 CPUs: b has the held GPU and 2 CPUs, c another GPU and 6; alice's pod needs 6 CPUs."""
    cluster = FakeCluster()
    cluster.cache.keep_scheduling_objects()
    cluster.add_node()
    cluster.set_cpu("n0", "8")
    cluster.opportunist("b", 0)
    cluster.request_cpu("b", "2")
    cluster.opportunist("c", 1)
    cluster.request_cpu("c", "6")
    cluster.book(count=2)
    cluster.waiting("a")
    cluster.request_cpu("a", "6")
    cluster.hold("a", HOLD)
    return cluster


def terminates(cluster: FakeCluster, name: str, *, since: float = 0) -> None:
    cluster.kube.delete(PODS, name, namespace="default", grace_seconds=30)
    cluster.clock.advance(since)
    cluster.renew()


def intrudes(cluster: FakeCluster) -> None:
    """A pod without a GPU takes 4 CPUs of the node."""
    cluster.create(a_pod("intruder").of("carol").on("n0", {}))
    cluster.request_cpu("intruder", "4")


def status_of(cluster: FakeCluster, hold: Hold = HOLD) -> HoldStatus:
    return hold_status(cluster.pod("a"), hold, cluster.snapshot())


def names_of(found: HoldStatus) -> list[str]:
    return [pod.metadata.name for pod in found.victims]


def test_a_victim_that_takes_the_room_must_leave_like_one_that_has_the_device(cluster: FakeCluster) -> None:
    assert names_of(status_of(cluster)) == ["b", "c"]


def test_a_free_device_is_not_enough_while_a_victim_takes_the_room(cluster: FakeCluster) -> None:
    cluster.gone("b")
    found = status_of(cluster)
    assert (found.free, names_of(found), found.complete) == ({"GPU-n0-0"}, ["c"], False)


def test_a_terminating_victim_that_takes_the_room_is_waited_for(cluster: FakeCluster) -> None:
    cluster.gone("b")
    terminates(cluster, "c")
    assert status_of(cluster) == HoldStatus(free=frozenset(HOLD.devices))


def test_the_room_of_a_stuck_victim_is_not_waited_for(cluster: FakeCluster) -> None:
    """The scheduler finds out whether there is room; a hold that it cannot use is dropped after a while."""
    cluster.gone("b")
    terminates(cluster, "c", since=3600)
    assert status_of(cluster) == HoldStatus(free=frozenset(HOLD.devices), complete=True)


def test_a_stuck_victim_whose_room_is_not_needed_is_not_waited_for(cluster: FakeCluster) -> None:
    cluster.opportunist("d", 2)
    more = Hold(node="n0", devices=HOLD.devices, victims=(*HOLD.victims, "uid-d"), at=EPOCH)
    cluster.gone("b")
    cluster.gone("c")
    terminates(cluster, "d", since=3600)
    assert status_of(cluster, more) == HoldStatus(free=frozenset(HOLD.devices), complete=True)


def test_a_device_of_a_terminating_pod_that_is_no_victim_is_not_free_yet(cluster: FakeCluster) -> None:
    only_c = Hold(node="n0", devices=HOLD.devices, victims=("uid-c",), at=EPOCH)
    cluster.gone("c")
    terminates(cluster, "b")
    assert status_of(cluster, only_c) == HoldStatus()


def test_a_victim_of_an_older_hold_makes_room_for_the_pod_of_that_hold(cluster: FakeCluster) -> None:
    cluster.waiting("first")
    cluster.request_cpu("first", "2")
    older = Hold(node="n0", devices=("GPU-n0-0",), victims=("uid-b",), at=EPOCH.replace(hour=8))
    cluster.hold("first", older)
    beside = Hold(node="n0", devices=("GPU-n0-1",), victims=("uid-c",), at=EPOCH)
    cluster.hold("a", beside)
    found = status_of(cluster, beside)
    assert (found.problem, names_of(found)) == (None, ["c"])


def test_room_that_an_older_hold_needs_is_not_available_to_the_next_pod(cluster: FakeCluster) -> None:
    cluster.waiting("first")
    cluster.request_cpu("first", "4")
    older = Hold(node="n0", devices=("GPU-n0-2",), victims=("uid-b",), at=EPOCH.replace(hour=8))
    cluster.hold("first", older)
    assert "cpu" in (status_of(cluster).problem or "").lower()


@pytest.mark.parametrize("left", ["terminating", "gone"])
def test_room_that_is_taken_after_a_victim_left_is_reported_as_crowded(
    cluster: FakeCluster, left: str
) -> None:
    terminates(cluster, "b") if left == "terminating" else cluster.gone("b")
    intrudes(cluster)
    found = status_of(cluster)
    assert found.problem
    assert found.crowded


def test_room_that_is_taken_before_a_victim_left_is_not_crowded(cluster: FakeCluster) -> None:
    intrudes(cluster)
    found = status_of(cluster)
    assert found.problem
    assert not found.crowded
