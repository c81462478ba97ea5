"""A running pod becomes booked on its node only where all others keep a place (law L5)."""

from datetime import timedelta

import msgspec
import pytest

from cluster import names
from cluster.fake.clock import START
from cluster.objects.bookings import Booking
from cluster.objects.maintenance import MaintenanceBlock
from cluster.objects.namespaces import Namespace
from tests.cluster.cache.test_booked_nodes import Seen
from tests.fakes.objects import PodBuilder, a_lease, a_pod

HOUR = timedelta(hours=1)


class Land(Seen):
    """Alice's booking of one GPU has just begun, and is planned on the last node."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.mine = self.book("b-1", 0, 9, 1, (f"n{len(sizes) - 1}", 1))

    def run(self, pod: PodBuilder, node: int = 0, device: int = 0, *, asks: int = 1) -> None:
        given = tuple(f"GPU-n{node}-{device + number}" for number in range(asks))
        self.cache.apply_pod(pod.of("alice").asks(asks).on(f"n{node}", {"main": given}).obj)

    def bobs(self, count: int = 2) -> Booking:
        return self.book("b-2", 5, 7, count, ("n0", count), user="bob")

    def covered(self) -> dict[str, str]:
        cover = self.cache.cover(self.clock.now())
        return {uid.removeprefix("uid-"): booking.name for uid, booking in cover.items()}


def test_where_nobody_needs_its_place_a_running_pod_is_adopted() -> None:
    land = Land(2, 1)
    land.run(a_pod("p"))
    assert land.covered() == {"p": "b-1"}
    land.bobs(count=1)
    assert land.covered() == {"p": "b-1"}


def test_l5_a_running_pod_in_the_place_that_another_is_promised_is_not_adopted() -> None:
    land = Land(2, 1)
    land.run(a_pod("p"))
    land.bobs()
    assert land.covered() == {}
    now = land.clock.now()
    pod = land.cache.pods["uid-p"]
    assert land.cache.cover_of(pod, now) is None
    user_coverage = land.cache.user_coverage(pod, now)
    assert (user_coverage.covered, user_coverage.barred) == ({}, {("uid-p", "b-1")})


def test_it_is_adopted_as_soon_as_that_other_one_has_another_place() -> None:
    land = Land(2, 1)
    land.run(a_pod("p"))
    land.bobs()
    assert land.covered() == {}
    land.node(2, 2)
    assert land.covered() == {"p": "b-1"}


def test_a_pod_that_has_cover_keeps_it_whatever_is_planned() -> None:
    land = Land(2, 1)
    land.run(a_pod("p").with_annotation(names.BOOKING, "b-1"))
    land.bobs()
    assert land.covered() == {"p": "b-1"}


def test_the_stamp_of_another_booking_is_no_cover() -> None:
    land = Land(2, 1)
    land.run(a_pod("p").with_annotation(names.BOOKING, "b-0"))
    land.bobs()
    assert land.covered() == {}


def test_what_one_pod_does_not_use_another_one_of_the_owner_gets() -> None:
    land = Land(2, 1)
    land.run(a_pod("a-wrong"))
    land.run(a_pod("b-right"), 1)
    land.cache.apply_pod(a_pod("c-waits").of("alice").asks(1).obj)
    assert land.covered() == {"a-wrong": "b-1"}
    land.bobs()
    assert land.covered() == {"b-right": "b-1"}


def test_it_waits_for_its_place_with_cover_while_it_is_not_bound() -> None:
    land = Land(2, 1)
    land.bobs()
    land.cache.apply_pod(a_pod("p").of("alice").asks(1).obj)
    assert land.covered() == {"p": "b-1"}
    assert land.nodes(land.mine, 1) == ["n1"]


def test_of_two_that_cannot_both_stay_the_first_booked_is_adopted() -> None:
    land = Land(3, 1, 1)
    carols = land.book("b-3", 0, 9, 1, ("n1", 1), user="carol")
    land.bobs()
    land.run(a_pod("p"))
    pod = a_pod("q").of("carol").asks(1).on("n0", {"main": ("GPU-n0-1",)}).obj
    land.cache.apply_pod(pod)
    assert land.covered() == {"p": "b-1"}
    assert land.cache.barred(land.clock.now()) == {("uid-q", carols.name)}


def test_two_that_run_in_each_others_place_are_both_adopted() -> None:
    land = Land(2, 1, 1)
    carols = land.book("b-3", 0, 9, 1, ("n1", 1), user="carol")
    land.bobs()
    land.run(a_pod("p"), 1)
    land.cache.apply_pod(a_pod("q").of("carol").asks(1).on("n2", {"main": ("GPU-n2-0",)}).obj)
    assert land.covered() == {"p": "b-1", "q": carols.name}


def test_l5_a_plan_that_is_out_of_date_is_left_the_place_that_it_will_need() -> None:
    land = Land(3, 2, 1, 1)
    land.cache.remove_booking(land.mine)
    land.book("b-3", 0, 9, 3, ("n0", 1), ("n1", 2), user="carol", topology="any")
    land.book("b-4", 0, 9, 2, ("n0", 2), user="dave")
    land.cache.apply_pod(a_pod("p").of("dave").asks(1).on("n2", {"main": ("GPU-n2-0",)}).obj)
    assert land.covered() == {"p": "b-4"}
    land.sizes = (3, 1, 1, 0)
    land.node(1, 1, version=2)
    land.node(3, 0, version=2)
    assert land.covered() == {}


def test_l5_maintenance_that_begins_before_the_booking_ends_bars_a_pod_too() -> None:
    land = Land(1, 1)
    land.run(a_pod("p"))
    assert land.covered() == {"p": "b-1"}
    land.node(0, 1, version=2, blocks=(MaintenanceBlock(start=START + 5 * HOUR, end=START + 6 * HOUR),))
    assert land.covered() == {}
    land.node(0, 1, version=3)
    assert land.covered() == {"p": "b-1"}


def test_a_booking_for_one_node_follows_its_running_pod_where_all_of_it_has_room() -> None:
    land = Land(2, 3, 1)
    whole = land.book("b-4", 0, 9, 2, ("n0", 2), user="carol")
    pod = a_pod("q").of("carol").asks(1).on("n1", {"main": ("GPU-n1-0",)}).obj
    land.cache.apply_pod(pod)
    assert land.covered() == {"q": whole.name}
    land.book("b-5", 5, 7, 3, ("n1", 3), user="bob")
    assert land.covered() == {}


@pytest.mark.parametrize("why", ["static", "spared"])
def test_a_pod_that_leaves_for_nobody_is_adopted_wherever_it_runs(why: str) -> None:
    land = Land(2, 1)
    land.bobs()
    pod = a_pod("p")
    if why == "static":
        pod = pod.with_annotation(names.STATIC_POD, "x")
    else:
        spared = {"metadata": {"name": "default", "annotations": {names.NEVER_EVICT: "true"}}}
        land.cache.replace_namespaces([msgspec.convert(spared, Namespace)])
    land.run(pod)
    assert land.covered() == {"p": "b-1"}


def test_on_a_node_that_is_gone_nothing_is_promised_that_a_pod_could_be_in_the_way_of() -> None:
    land = Land(2, 1)
    land.run(a_pod("p"))
    land.bobs()
    land.cache.apply_lease(a_lease("n0", renewed=land.clock.now()))
    land.clock.advance(3599)
    assert land.covered() == {}
    land.clock.advance(1)
    assert land.covered() == {"p": "b-1"}


def test_the_answer_is_remembered_until_something_changes() -> None:
    land = Land(2, 1)
    land.run(a_pod("p"))
    land.bobs()
    first = land.cache.barred(land.clock.now())
    assert land.cache.barred(land.clock.now()) is first
    land.run(a_pod("other"), 1)
    assert land.cache.barred(land.clock.now()) is not first
