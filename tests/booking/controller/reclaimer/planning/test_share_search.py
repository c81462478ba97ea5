"""Room for a booked pod's share: on one GPU, by the cheapest pods, whoever has it now."""

from datetime import timedelta
from itertools import chain, combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from booking.controller.reclaimer.planning.plan import plan
from booking.eviction.settings import EvictionSettings
from cluster.objects.hold import Hold
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH, a_pod, shared_gpu

MIB = 80_000


def running(
    cluster: FakeCluster, name: str, index: int, *, user: str = "bob", minutes: int = 10, **amounts: int
) -> None:
    """A pod with a share of a GPU for so long, or with all of it if no amount is said."""
    builder = a_pod(name).of(user)
    builder = builder.shares(**amounts) if amounts else builder.asks(1)
    text = (EPOCH - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    bound = builder.on("n0", {"main": (f"GPU-n0-{index}",)})
    cluster.create(bound, {"status": {"phase": "Running", "startTime": text}})


def a_cluster(gpus: int = 1, wanted: int = 20_000, **booking: Any) -> FakeCluster:
    """GPUs of 80,000 MiB, and alice's pod with a share, which a booking of a share covers."""
    cluster = FakeCluster()
    cluster.add_node("n0", *(shared_gpu(index, memory=MIB) for index in range(gpus)))
    cluster.book(**{"memory": wanted, **booking})
    cluster.create(a_pod("a").of("alice").shares(memory=wanted))
    return cluster


def planned(cluster: FakeCluster) -> Hold | None:
    plans = plan(cluster.snapshot())
    return plans[0].hold if plans else None


def test_the_share_of_a_booked_pod_is_never_taken_for_another_booking() -> None:
    cluster = a_cluster()
    cluster.book("b-2", user="bob", memory=70_000)
    running(cluster, "booked", 0, memory=70_000)
    running(cluster, "more", 0, memory=10_000)

    assert planned(cluster) is None


def test_a_share_comes_to_the_gpu_of_its_lane_though_room_is_elsewhere() -> None:
    cluster = a_cluster(gpus=2, places=[{"node": "n0", "count": 1, "lanes": [1]}])
    cluster.book("b-2", user="carol", memory=40_000, places=[{"node": "n0", "count": 1, "lanes": [1]}])
    running(cluster, "carols", 0, user="carol", memory=40_000)
    running(cluster, "b0", 0, memory=30_000)

    hold = planned(cluster)

    assert hold is not None
    assert (hold.devices, hold.victims) == (("GPU-n0-0",), ("uid-b0",))


def test_a_share_does_not_come_to_a_gpu_of_another_lane_though_nobody_would_have_to_leave() -> None:
    cluster = a_cluster(gpus=2, places=[{"node": "n0", "count": 1, "lanes": [2]}])
    cluster.book("b-2", user="carol", memory=40_000, places=[{"node": "n0", "count": 1, "lanes": [1]}])
    running(cluster, "carols", 0, user="carol", memory=40_000)
    running(cluster, "b0", 1, memory=70_000)

    hold = planned(cluster)

    assert hold is not None
    assert (hold.devices, hold.victims) == (("GPU-n0-1",), ("uid-b0",))


@given(
    pods=st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from((10_000, 20_000, 40_000)), st.integers(1, 9)), max_size=8
    ),
    wanted=st.sampled_from((10_000, 30_000, 60_000, 80_000)),
)
def test_l3_the_victims_are_the_cheapest_of_all_sets_after_which_the_share_fits(
    pods: list[tuple[int, int, int]], wanted: int
) -> None:
    cluster = a_cluster(gpus=2, wanted=wanted)
    used = [0, 0]
    there: list[tuple[int, int, int]] = []
    for index, memory, minutes in pods:
        if used[index] + memory <= MIB:
            running(cluster, f"b{len(there)}", index, memory=memory, minutes=minutes)
            used[index] += memory
            there.append((index, memory, minutes))

    hold = planned(cluster)

    restart = EvictionSettings().restart_cost_seconds

    def cost(gone: tuple[int, ...]) -> int:
        return sum(int((60 * there[n][2] + restart) * 1000 * there[n][1] // MIB) for n in gone)

    def fits(gone: tuple[int, ...]) -> bool:
        freed = [sum(there[n][1] for n in gone if there[n][0] == index) for index in (0, 1)]
        return any(MIB - used[index] + freed[index] >= wanted for index in (0, 1))

    every = range(len(there))
    sets = list(
        filter(fits, chain.from_iterable(combinations(every, size) for size in range(len(there) + 1)))
    )
    if () in sets:
        assert hold is None
        return
    assert hold is not None
    chosen = tuple(sorted(int(uid.removeprefix("uid-b")) for uid in hold.victims))
    assert chosen in sets
    assert abs(cost(chosen) - min(map(cost, sets))) <= len(there)
