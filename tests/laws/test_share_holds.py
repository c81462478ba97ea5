"""L3 where pods have shares: no victim whose share could be left."""

import pytest

from cluster.objects.hold import Hold
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH, a_pod, shared_gpu
from tests.laws.breaking import breaks
from tests.laws.watcher import LawWatcher

G0, G1 = "GPU-n0-0", "GPU-n0-1"


def hold(*victims: str, device: str = G0, memory: int | None = 30_000) -> Hold:
    uids = tuple(f"uid-{victim}" for victim in victims)
    return Hold(node="n0", devices=(device,), victims=uids, memory=memory, at=EPOCH)


@pytest.fixture
def shared(cluster: FakeCluster, laws: LawWatcher) -> FakeCluster:
    """Bob's pods share two GPUs, 5,000 of 80,000 MiB are left of each, and alice's booked share waits."""
    assert laws
    cluster.add_node("n0", *(shared_gpu(index) for index in range(2)))
    for name, memory, device in (("b0", 50_000, G0), ("b1", 25_000, G0), ("b2", 75_000, G1)):
        bound = a_pod(name).of("bob").shares(memory=memory).on("n0", {"main": (device,)})
        cluster.create(bound, {"status": {"phase": "Running"}})
    cluster.book(memory=30_000)
    cluster.create(a_pod("a").of("alice").shares(memory=30_000))
    return cluster


def test_a_hold_with_just_the_sharers_that_must_leave_is_just(shared: FakeCluster, laws: LawWatcher) -> None:
    shared.hold("a", hold("b1"))
    laws.check()


def test_a_sharer_that_could_be_left_breaks_it(shared: FakeCluster, laws: LawWatcher) -> None:
    with breaks(laws, "L3", "its victim default/b0 could be spared"):
        shared.hold("a", hold("b0", "b1"))


def test_too_little_room_breaks_it(shared: FakeCluster, laws: LawWatcher) -> None:
    with breaks(laws, "L3", f"there is no room on {G0} once its victims have left"):
        shared.hold("a", hold())


def test_a_victim_while_a_gpu_has_room_breaks_it(shared: FakeCluster, laws: LawWatcher) -> None:
    shared.gone("b2")
    with breaks(laws, "L3", f"{G1} has room for which nobody has to go"):
        shared.hold("a", hold("b1"))


def test_for_a_whole_gpu_all_of_its_sharers_must_leave(shared: FakeCluster, laws: LawWatcher) -> None:
    shared.book("b-2", user="carol")
    shared.waiting("whole", user="carol")
    with breaks(laws, "L3", "default/b0 has a device of it and is not among its victims"):
        shared.hold("whole", hold("b1", memory=None))
