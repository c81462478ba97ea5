"""The pods that leave for a booked pod, and the devices held for it, match its request (law L3)."""

import pytest

from booking.controller.reclaimer.holds.hold_status import hold_status
from booking.controller.reclaimer.planning.plan import plan
from cluster import names
from cluster.objects.hold import Hold
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import A100, a100


@pytest.fixture
def cluster() -> FakeCluster:
    """Alice may have one A100 and waits for it; bob's four have all, the last one has worked least."""
    cluster = FakeCluster()
    cluster.add_node("n0", *(a100(index, memory=81920 if index < 3 else 40960) for index in range(4)))
    cluster.fill()
    cluster.book()
    cluster.waiting("a")
    return cluster


def held(cluster: FakeCluster) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(one.hold.devices, one.hold.victims) for one in plan(cluster.snapshot())]


def test_no_pod_is_evicted_for_a_request_that_no_device_meets(cluster: FakeCluster) -> None:
    cluster.annotate("a", names.MIN_MEMORY, "200Gi")
    assert held(cluster) == []


def test_a_hold_on_a_device_that_no_longer_matches_is_released(cluster: FakeCluster) -> None:
    hold = Hold(node="n0", devices=("GPU-n0-3",), victims=("uid-b3",))
    pod = cluster.snapshot().pods["uid-a"]
    assert hold_status(pod, hold, cluster.snapshot()).problem is None
    cluster.annotate("a", names.UUID, "GPU-n0-0")
    snapshot = cluster.snapshot()
    problem = hold_status(snapshot.pods["uid-a"], hold, snapshot).problem
    assert problem == "a device of it is not healthy any more, or not one that the pod is to have"
    assert snapshot.cover["uid-a"].spec.model == A100
