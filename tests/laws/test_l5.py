"""L5: every accepted booking can be honoured."""

from datetime import timedelta

import pytest

from cluster.kube.resources import BOOKINGS
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import A100, A6000, EPOCH, a100, a6000, a_pod, shared_gpu
from tests.laws.breaking import breaks
from tests.laws.watcher import LawWatcher

DAY = timedelta(days=1)
IN_KUBE_SYSTEM = {"metadata": {"namespace": "kube-system"}}


def test_as_many_devices_as_exist_can_be_booked(cluster: FakeCluster, laws: LawWatcher) -> None:
    cluster.book("b-1", count=3)
    cluster.book("b-2", count=1)
    laws.finish()


def test_one_device_more_than_exist_breaks_it(cluster: FakeCluster, laws: LawWatcher) -> None:
    cluster.book("b-1", count=3)
    with breaks(
        laws, "L5", "With b-2 5 x NVIDIA-A100-SXM4-80GB are booked at 2026-11-23 09:00:00 UTC, and .* 4"
    ):
        cluster.book("b-2", count=2)


def test_bookings_that_follow_each_other_use_the_same_devices(cluster: FakeCluster, laws: LawWatcher) -> None:
    cluster.book("b-1", count=4, end=EPOCH + DAY)
    cluster.book("b-2", count=4, start=EPOCH + DAY, end=EPOCH + 2 * DAY)
    laws.finish()


def test_an_instant_in_the_future_counts(cluster: FakeCluster, laws: LawWatcher) -> None:
    cluster.book("b-1", count=3, start=EPOCH + 2 * DAY, end=EPOCH + 4 * DAY)
    cluster.book("b-2", count=2, end=EPOCH + 2 * DAY)
    with breaks(laws, "L5", "With b-3 5 x .* are booked at 2026-11-25 09:00:00 UTC"):
        cluster.book("b-3", count=2, start=EPOCH + DAY, end=EPOCH + 3 * DAY)


def test_a_booking_that_grows_into_another_breaks_it(cluster: FakeCluster, laws: LawWatcher) -> None:
    cluster.book("b-1", count=4, end=EPOCH + DAY)
    cluster.book("b-2", count=1, start=EPOCH + DAY, end=EPOCH + 2 * DAY)
    with breaks(laws, "L5", "With b-1 5 x"):
        cluster.kube.patch(BOOKINGS, "b-1", {"spec": {"end": "2026-11-25T09:00:00Z"}})


def test_models_are_counted_apart_and_unhealthy_devices_not_at_all(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    cluster.add_node("n1", a6000(0, "n1"), a6000(1, "n1", health="unhealthy"), a100(2, "n1"))
    cluster.book("b-1", count=5)
    cluster.book("b-2", model=A6000, count=1)
    with breaks(laws, "L5", "With b-3 2 x NVIDIA-RTX-A6000 are booked"):
        cluster.book("b-3", model=A6000, count=1)


def test_devices_of_pods_that_may_not_be_evicted_cannot_be_booked(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    held = {"main": ("GPU-n0-0",)}
    cluster.create(a_pod("d").of("bob").asks(1).on("n0", held).of_a_daemon_set())
    cluster.create(a_pod("s").of("bob").asks(1).on("n0", {"main": ("GPU-n0-1",)}), IN_KUBE_SYSTEM)
    cluster.opportunist("o", 2)
    cluster.book("b-1", count=2)
    with breaks(laws, "L5", "With b-2 3 x .* are booked .* and there are 2"):
        cluster.book("b-2", count=1)


def test_a_pod_that_a_booking_covers_takes_nothing_from_it(cluster: FakeCluster, laws: LawWatcher) -> None:
    cluster.create(a_pod("d").of("alice").asks(1).on("n0", {"main": ("GPU-n0-0",)}).of_a_daemon_set())
    cluster.book("b-1", count=4)
    laws.finish()


def test_a_device_that_becomes_unhealthy_breaks_no_guarantee(cluster: FakeCluster, laws: LawWatcher) -> None:
    booking = cluster.book("b-1", count=4)
    cluster.add_node("n0", *(a100(i, health="unhealthy" if i else "healthy") for i in range(4)))
    cluster.end_booking("b-1", booking.spec.end - DAY)
    laws.finish()


def test_bookings_that_must_each_lie_on_one_node_need_room_there(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    cluster.add_node("n1")
    cluster.book("b-1", count=3, topology="single-node")
    cluster.book("b-2", count=3, topology="single-node")
    cluster.book("b-3", count=1)
    laws.finish()
    cluster.book("b-3", count=1, topology="single-node", end=EPOCH + DAY)
    laws.finish()
    with breaks(laws, "L5", r"With b-4 \[3, 3, 2\] x .* on one node each at 2026-11-24 .*, of \[4, 4\]"):
        cluster.book("b-4", count=2, topology="single-node", start=EPOCH + DAY, end=EPOCH + 2 * DAY)


def test_places_are_needed_for_the_whole_time_and_not_only_at_each_instant(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    def booked(name: str, start: int, end: int, count: int = 1) -> None:
        topology = "single-node" if count > 1 else "any"
        span = {"start": EPOCH + start * DAY, "end": EPOCH + end * DAY}
        cluster.book(name, model=A6000, count=count, topology=topology, **span)

    for node in ("n1", "n2"):
        cluster.add_node(node, a6000(0, node), a6000(1, node))
    booked("b-1", 0, 2, count=2)
    booked("b-2", 0, 4)
    booked("b-3", 0, 6)
    booked("b-4", 3, 6)
    with breaks(laws, "L5", "With b-5 there is no place for every booking of NVIDIA-RTX-A6000"):
        booked("b-5", 4, 6, count=2)


def test_another_plan_guarantees_nothing_new(cluster: FakeCluster, laws: LawWatcher) -> None:
    cluster.add_node("n1", a6000(0, "n1"), a6000(1, "n1"))
    cluster.book("b-1", model=A6000, count=2, topology="single-node")
    cluster.add_node("n1", a6000(0, "n1"), a6000(1, "n1", health="unhealthy"))
    cluster.kube.patch(BOOKINGS, "b-1", {"spec": {"places": [{"node": "n1", "count": 2}]}})
    laws.finish()


@pytest.mark.parametrize(
    ("lane", "words"),
    [(1, "shares of {1: 80001} MiB of one .* are booked, which offers 80000"), (2, "3 x .* are booked")],
)
def test_shares_may_fill_a_device_and_take_no_more_of_it(
    cluster: FakeCluster, laws: LawWatcher, lane: int, words: str
) -> None:
    cluster.add_node("n0", *(shared_gpu(index, memory=80_000) for index in range(2)))
    share(cluster, "b-1", 1, 30_000)
    share(cluster, "b-2", 1, 50_000)
    cluster.book("b-3")
    with breaks(laws, "L5", f"With b-4 {words}"):
        share(cluster, "b-4", lane, 1)


def share(cluster: FakeCluster, name: str, lane: int, memory: int) -> None:
    spec = {"user": "alice", "model": A100, "count": 1, "start": EPOCH, "end": EPOCH + DAY, "memory": memory}
    places = [{"node": "n0", "count": 1, "lanes": [lane]}]
    cluster.kube.put(BOOKINGS, {"metadata": {"name": name}, "spec": {**spec, "places": places}})
