"""Which pods are evicted where a booked pod needs room, such as CPUs, besides its devices (law L3)."""

import pytest

from booking.controller.reclaimer.planning.plan import plan
from cluster import names
from cluster.objects.hold import Hold
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster


def holds(cluster: FakeCluster) -> dict[str, Hold]:
    return {one.pod.metadata.name: one.hold for one in plan(cluster.snapshot())}


@pytest.fixture
def tight() -> FakeCluster:
    """Two of bob's pods have half of the GPUs of a node and all of its CPUs; alice's pod needs some."""
    cluster = FakeCluster()
    cluster.cache.keep_scheduling_objects()
    cluster.add_node()
    cluster.set_cpu("n0", "8")
    cluster.opportunist("large", 0, minutes=60)
    cluster.opportunist("small", 1, minutes=1)
    cluster.request_cpu("large", "6")
    cluster.request_cpu("small", "2")
    cluster.book(count=4)
    cluster.waiting("a")
    return cluster


def test_a_free_device_on_a_node_without_room_costs_the_cheapest_pod_that_makes_room(
    tight: FakeCluster,
) -> None:
    tight.request_cpu("a", "2")
    assert holds(tight)["a"].victims == ("uid-small",)
    assert holds(tight)["a"].devices == ("GPU-n0-2",)


def test_the_cheapest_set_is_skipped_where_it_makes_too_little_room(tight: FakeCluster) -> None:
    tight.request_cpu("a", "3")
    assert holds(tight)["a"].victims == ("uid-large",)


def test_only_as_many_pods_are_evicted_as_make_room(tight: FakeCluster) -> None:
    tight.request_cpu("a", "7")
    assert holds(tight)["a"].victims == ("uid-large", "uid-small")


def test_no_pod_is_evicted_where_there_would_still_be_too_little_room(tight: FakeCluster) -> None:
    tight.request_cpu("a", "9")
    assert holds(tight) == {}


def test_room_that_one_plan_uses_is_not_available_to_the_next(tight: FakeCluster) -> None:
    tight.request_cpu("a", "2")
    tight.waiting("a2")
    tight.request_cpu("a2", "2")
    assert {name: hold.victims for name, hold in holds(tight).items()} == {
        "a": ("uid-small",),
        "a2": ("uid-large",),
    }


def test_a_victim_that_makes_room_is_evicted_and_waited_for(tight: FakeCluster) -> None:
    tight.request_cpu("a", "2")
    tight.reconcile(2)
    assert tight.kept("a").victims == ("uid-small",)
    tight.after(3)
    assert tight.evicted() == ["small"]
    tight.after(11)
    assert tight.held("a") is not None, "the room is not free yet, so the node is not to blame"
    tight.gone("small")
    tight.reconcile()
    tight.after(11)
    assert tight.annotation("a", names.BARRED) == "n0"


def test_a_victim_that_makes_room_is_spared_when_there_is_room_anyway(tight: FakeCluster) -> None:
    tight.request_cpu("a", "2")
    tight.reconcile(2)
    tight.gone("large")
    tight.after(3)
    assert tight.evicted() == []
