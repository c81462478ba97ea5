"""A running pod becomes booked on its node only where all others keep a place (law L5)."""

from datetime import timedelta

import msgspec
import pytest

from cluster import names
from cluster.fake.clock import START
from cluster.kube.resources import BOOKINGS, LEASES, NAMESPACES, PODS
from cluster.objects.bookings import Booking
from cluster.objects.maintenance import MaintenanceBlock
from cluster.objects.namespaces import Namespace
from tests.cluster.cache.test_booked_nodes import CachedCluster
from tests.fakes.objects import PodBuilder, a_lease, a_pod

HOUR = timedelta(hours=1)


class ClusterWithBooking(CachedCluster):
    """Alice's booking of one GPU has just begun, and is planned on the last node."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.mine = self.book("b-1", 0, 9, 1, (f"n{len(sizes) - 1}", 1))

    def run(self, pod: PodBuilder, node: int = 0, device: int = 0, *, asks: int = 1) -> None:
        given = tuple(f"GPU-n{node}-{device + number}" for number in range(asks))
        self.cache.of(PODS).upsert(pod.of("alice").asks(asks).on(f"n{node}", {"main": given}).obj)

    def bobs(self, count: int = 2) -> Booking:
        return self.book("b-2", 5, 7, count, ("n0", count), user="bob")

    def covered(self) -> dict[str, str]:
        cover = self.cache.cover(self.clock.now())
        return {uid.removeprefix("uid-"): booking.name for uid, booking in cover.items()}


def test_a_running_pod_is_adopted_where_no_other_booking_needs_its_place() -> None:
    cluster = ClusterWithBooking(2, 1)
    cluster.run(a_pod("p"))
    assert cluster.covered() == {"p": "b-1"}
    cluster.bobs(count=1)
    assert cluster.covered() == {"p": "b-1"}


def test_l5_a_running_pod_in_the_place_of_another_booking_is_not_adopted() -> None:
    cluster = ClusterWithBooking(2, 1)
    cluster.run(a_pod("p"))
    cluster.bobs()
    assert cluster.covered() == {}
    now = cluster.clock.now()
    pod = cluster.cache.pods["uid-p"]
    assert cluster.cache.cover_of(pod, now) is None
    user_coverage = cluster.cache.user_coverage(pod, now)
    assert (user_coverage.covered, user_coverage.barred) == ({}, {("uid-p", "b-1")})


def test_a_pod_is_adopted_as_soon_as_the_other_booking_has_another_place() -> None:
    cluster = ClusterWithBooking(2, 1)
    cluster.run(a_pod("p"))
    cluster.bobs()
    assert cluster.covered() == {}
    cluster.node(2, 2)
    assert cluster.covered() == {"p": "b-1"}


def test_a_pod_that_has_cover_keeps_it_whatever_is_planned() -> None:
    cluster = ClusterWithBooking(2, 1)
    cluster.run(a_pod("p").with_annotation(names.BOOKING, "b-1"))
    cluster.bobs()
    assert cluster.covered() == {"p": "b-1"}


def test_the_cover_annotation_of_another_booking_is_no_cover() -> None:
    cluster = ClusterWithBooking(2, 1)
    cluster.run(a_pod("p").with_annotation(names.BOOKING, "b-0"))
    cluster.bobs()
    assert cluster.covered() == {}


def test_cover_that_a_misplaced_pod_cannot_use_goes_to_another_pod_of_the_owner() -> None:
    cluster = ClusterWithBooking(2, 1)
    cluster.run(a_pod("a-wrong"))
    cluster.run(a_pod("b-right"), 1)
    cluster.cache.of(PODS).upsert(a_pod("c-waits").of("alice").asks(1).obj)
    assert cluster.covered() == {"a-wrong": "b-1"}
    cluster.bobs()
    assert cluster.covered() == {"b-right": "b-1"}


def test_an_unbound_pod_is_covered_and_may_only_go_to_its_booking_s_place() -> None:
    cluster = ClusterWithBooking(2, 1)
    cluster.bobs()
    cluster.cache.of(PODS).upsert(a_pod("p").of("alice").asks(1).obj)
    assert cluster.covered() == {"p": "b-1"}
    assert cluster.nodes(cluster.mine, 1) == ["n1"]


def test_the_pod_of_the_first_booking_by_name_is_adopted_where_two_cannot_both_stay() -> None:
    cluster = ClusterWithBooking(3, 1, 1)
    carols = cluster.book("b-3", 0, 9, 1, ("n1", 1), user="carol")
    cluster.bobs()
    cluster.run(a_pod("p"))
    pod = a_pod("q").of("carol").asks(1).on("n0", {"main": ("GPU-n0-1",)}).obj
    cluster.cache.of(PODS).upsert(pod)
    assert cluster.covered() == {"p": "b-1"}
    assert cluster.cache.barred(cluster.clock.now()) == {("uid-q", carols.name)}


def test_two_pods_that_run_in_each_other_s_place_are_both_adopted() -> None:
    cluster = ClusterWithBooking(2, 1, 1)
    carols = cluster.book("b-3", 0, 9, 1, ("n1", 1), user="carol")
    cluster.bobs()
    cluster.run(a_pod("p"), 1)
    cluster.cache.of(PODS).upsert(a_pod("q").of("carol").asks(1).on("n2", {"main": ("GPU-n2-0",)}).obj)
    assert cluster.covered() == {"p": "b-1", "q": carols.name}


def test_l5_no_pod_is_adopted_in_the_place_that_an_outdated_plan_will_need() -> None:
    cluster = ClusterWithBooking(3, 2, 1, 1)
    cluster.cache.of(BOOKINGS).remove(cluster.mine)
    cluster.book("b-3", 0, 9, 3, ("n0", 1), ("n1", 2), user="carol", topology="any")
    cluster.book("b-4", 0, 9, 2, ("n0", 2), user="alice")
    cluster.cache.of(PODS).upsert(a_pod("p").of("alice").asks(1).on("n2", {"main": ("GPU-n2-0",)}).obj)
    assert cluster.covered() == {"p": "b-4"}
    cluster.sizes = (3, 1, 1, 0)
    cluster.node(1, 1, version=2)
    cluster.node(3, 0, version=2)
    assert cluster.covered() == {}


def test_l5_maintenance_that_begins_before_the_booking_ends_bars_a_pod_too() -> None:
    cluster = ClusterWithBooking(1, 1)
    cluster.run(a_pod("p"))
    assert cluster.covered() == {"p": "b-1"}
    cluster.node(0, 1, version=2, blocks=(MaintenanceBlock(start=START + 5 * HOUR, end=START + 6 * HOUR),))
    assert cluster.covered() == {}
    cluster.node(0, 1, version=3)
    assert cluster.covered() == {"p": "b-1"}


def test_a_single_node_booking_follows_its_running_pod_to_a_node_with_room_for_all_of_it() -> None:
    cluster = ClusterWithBooking(2, 3, 1)
    whole = cluster.book("b-4", 0, 9, 2, ("n0", 2), user="carol")
    pod = a_pod("q").of("carol").asks(1).on("n1", {"main": ("GPU-n1-0",)}).obj
    cluster.cache.of(PODS).upsert(pod)
    assert cluster.covered() == {"q": whole.name}
    cluster.book("b-5", 5, 7, 3, ("n1", 3), user="bob")
    assert cluster.covered() == {}


@pytest.mark.parametrize("why", ["static", "protected"])
def test_a_pod_that_is_never_evicted_is_adopted_wherever_it_runs(why: str) -> None:
    cluster = ClusterWithBooking(2, 1)
    cluster.bobs()
    pod = a_pod("p")
    if why == "static":
        pod = pod.with_annotation(names.STATIC_POD, "x")
    else:
        protected = {"metadata": {"name": "default", "annotations": {names.NEVER_EVICT: "true"}}}
        cluster.cache.of(NAMESPACES).replace([msgspec.convert(protected, Namespace)])
    cluster.run(pod)
    assert cluster.covered() == {"p": "b-1"}


def test_a_pod_on_a_node_that_is_gone_is_adopted_since_nothing_is_planned_there() -> None:
    cluster = ClusterWithBooking(2, 1)
    cluster.run(a_pod("p"))
    cluster.bobs()
    cluster.cache.of(LEASES).upsert(a_lease("n0", renewed=cluster.clock.now()))
    cluster.clock.advance(3599)
    assert cluster.covered() == {}
    cluster.clock.advance(1)
    assert cluster.covered() == {"p": "b-1"}


def test_the_answer_is_cached_until_something_changes() -> None:
    cluster = ClusterWithBooking(2, 1)
    cluster.run(a_pod("p"))
    cluster.bobs()
    first = cluster.cache.barred(cluster.clock.now())
    assert cluster.cache.barred(cluster.clock.now()) is first
    cluster.run(a_pod("other"), 1)
    assert cluster.cache.barred(cluster.clock.now()) is not first
