"""A whole GPU for a booked pod where pods share GPUs: all sharers of the cheapest leave, and no other."""

from datetime import timedelta
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.controller.reclaimer.planning.plan import plan
from booking.eviction.settings import EvictionSettings
from cluster import names
from cluster.objects.hold import Hold
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH, a_pod, shared_gpu


def share(cluster: FakeCluster, name: str, *indices: int, memory: int, minutes: int = 10) -> None:
    """A pod of bob's with a share of each of these GPUs, for so long."""
    devices = tuple(f"GPU-n0-{index}" for index in indices)
    builder = a_pod(name).of("bob").shares(memory=memory, gpus=len(indices)).on("n0", {"main": devices})
    text = (EPOCH - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    cluster.create(builder, {"status": {"phase": "Running", "startTime": text}})


def a_cluster(gpus: int = 2, wanted: int = 1) -> FakeCluster:
    """GPUs of 80,000 MiB, and alice's booked pod, which waits for so many of them."""
    cluster = FakeCluster()
    cluster.add_node("n0", *(shared_gpu(index) for index in range(gpus)))
    cluster.book(count=wanted)
    cluster.waiting("a", wanted)
    return cluster


def planned(cluster: FakeCluster) -> Hold | None:
    plans = plan(cluster.snapshot())
    return plans[0].hold if plans else None


def test_a_shared_gpu_with_a_pod_that_may_not_be_evicted_is_not_freed() -> None:
    cluster = a_cluster(gpus=1)
    share(cluster, "b0", 0, memory=100)
    builder = a_pod("daemon").of("bob").shares(memory=1).on("n0", {"main": ("GPU-n0-0",)}).of_a_daemon_set()
    cluster.create(builder, {"status": {"phase": "Running"}})

    assert planned(cluster) is None


def test_a_gang_whose_pods_share_gpus_with_others_leaves_whole_and_loses_as_much() -> None:
    cluster = a_cluster(gpus=3)
    for name, index, minutes in (("g0", 0, 1), ("g1", 1, 100), ("b", 2, 20)):
        share(cluster, name, index, memory=8000, minutes=minutes)
    for name in ("g0", "g1"):
        cluster.annotate(name, names.GANG_SIZE, "2")
        cluster.annotate(name, names.GANG, "g")
    hold = planned(cluster)
    assert hold is not None
    assert hold.victims == ("uid-b",)
    cluster.annotate("b", names.GANG_SIZE, "2")
    cluster.annotate("b", names.GANG, "other")
    share(cluster, "large", 2, memory=70_000, minutes=90)
    hold = planned(cluster)
    assert hold is not None
    assert sorted(hold.victims) == ["uid-g0", "uid-g1"]


@pytest.mark.parametrize("wanted", [1, 2, 3])
@given(data=st.data())
def test_l3_the_victims_are_those_of_the_cheapest_choice_of_gpus(wanted: int, data: st.DataObject) -> None:
    pods = data.draw(
        st.lists(st.tuples(st.sets(st.integers(0, 3), min_size=1, max_size=2), st.integers(1, 9)), max_size=6)
    )
    cluster = a_cluster(gpus=4, wanted=wanted)
    for number, (indices, minutes) in enumerate(pods):
        share(cluster, f"b{number}", *sorted(indices), memory=8000, minutes=minutes)

    hold = planned(cluster)

    def leaving(gpus: tuple[int, ...]) -> frozenset[int]:
        return frozenset(number for number, (indices, _) in enumerate(pods) if indices & set(gpus))

    restart = EvictionSettings().restart_cost_seconds

    def cost(gone: frozenset[int]) -> float:
        return sum((60 * pods[n][1] + restart) * len(pods[n][0]) for n in gone)

    choices = [leaving(gpus) for gpus in combinations(range(4), wanted)]
    if not all(choices):
        assert hold is None  # it fits
        return
    assert hold is not None
    chosen = frozenset(int(uid.removeprefix("uid-b")) for uid in hold.victims)
    assert cost(chosen) == min(map(cost, choices))
    assert leaving(tuple(int(uuid[-1]) for uuid in hold.devices)) == chosen
