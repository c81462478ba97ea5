"""Where booked pods may be placed, by a snapshot of the cluster."""

from datetime import timedelta

import msgspec
import pytest

from cluster import names
from cluster.cache import EVERYWHERE, BookingPlans, ClusterCache
from cluster.fake.clock import START, FakeClock
from cluster.kube.resources import BOOKINGS, NAMESPACES, NODES, PODS
from cluster.objects.bookings import Booking
from cluster.objects.maintenance import MaintenanceBlock, encode_blocks
from cluster.objects.namespaces import Namespace
from cluster.objects.nodes import Node
from tests.fakes.objects import a100, a_booking, a_node, a_pod


class CachedCluster:
    """A cluster cache, and the places that follow from it."""

    def __init__(self, *sizes: int) -> None:
        self.clock = FakeClock()
        self.cache = ClusterCache(self.clock)
        self.booking_plans = BookingPlans(self.cache)
        self.sizes = sizes
        for index, size in enumerate(sizes):
            self.node(index, size)

    def node(
        self, index: int, size: int, *, version: int = 1, blocks: tuple[MaintenanceBlock, ...] = ()
    ) -> None:
        name = f"n{index}"
        node = a_node(name, *(a100(each, name) for each in range(size)), version=version)
        annotations = {**(node.metadata.annotations or {})}
        if blocks:
            annotations[names.BLOCKS] = encode_blocks(blocks)
        meta = msgspec.structs.replace(node.metadata, annotations=annotations)
        self.cache.of(NODES).upsert(Node(metadata=meta))

    def book(
        self, name: str, start: int, end: int, count: int, *places: tuple[str, int], **more: object
    ) -> Booking:
        booking = a_booking(
            name,
            count=count,
            start=START + timedelta(hours=start),
            end=START + timedelta(hours=end),
            places=[{"node": node, "count": many} for node, many in places],
            **({"topology": "single-node" if count > 1 else "any"} | more),
        )
        self.cache.of(BOOKINGS).upsert(booking)
        return booking

    def nodes(self, booking: Booking, need: int) -> list[str]:
        places = self.booking_plans.places(self.clock.now())
        return [f"n{i}" for i in range(len(self.sizes)) if places.allow(booking, f"n{i}", need)]


def test_every_node_is_allowed_without_a_plan_where_only_single_devices_are_booked() -> None:
    cluster = CachedCluster(1, 1)
    one = cluster.book("b-1", 0, 9, 1, ("n0", 1))
    assert cluster.booking_plans.places(cluster.clock.now()) is EVERYWHERE
    assert cluster.nodes(one, 1) == ["n0", "n1"]


def test_a_pod_may_not_go_to_a_node_that_is_planned_whole_for_another_booking() -> None:
    cluster = CachedCluster(2, 1)
    one = cluster.book("b-1", 0, 9, 1, ("n1", 1))
    cluster.book("b-2", 5, 7, 2, ("n0", 2), user="bob")
    assert cluster.nodes(one, 1) == ["n1"]
    assert cluster.booking_plans.places(cluster.clock.now()).planned(one, "n1") == 1
    assert cluster.booking_plans.places(cluster.clock.now()).planned(one, "n0") == 0


def test_a_pod_may_go_to_a_node_whose_planned_booking_can_move() -> None:
    cluster = CachedCluster(2, 2, 1)
    one = cluster.book("b-1", 0, 9, 1, ("n2", 1))
    cluster.book("b-2", 5, 7, 2, ("n0", 2), user="bob")
    assert cluster.nodes(one, 1) == ["n0", "n1", "n2"]
    cluster.book("b-3", 6, 8, 2, ("n1", 2), user="carol")
    assert cluster.nodes(one, 1) == ["n2"]


def test_a_booking_that_has_begun_is_not_moved_for_a_pod() -> None:
    cluster = CachedCluster(2, 2, 1)
    one = cluster.book("b-1", 0, 9, 1, ("n2", 1))
    cluster.book("b-2", 0, 7, 2, ("n0", 2), user="bob")
    assert cluster.nodes(one, 1) == ["n1", "n2"]


def test_maintenance_that_begins_before_the_booking_ends_closes_a_node() -> None:
    cluster = CachedCluster(1, 1)
    one = cluster.book("b-1", 0, 9, 1, ("n1", 1))
    hours = timedelta(hours=1)
    cluster.node(0, 1, version=2, blocks=(MaintenanceBlock(start=START + 5 * hours, end=START + 6 * hours),))
    assert cluster.nodes(one, 1) == ["n1"]
    cluster.node(0, 1, version=3)
    assert cluster.nodes(one, 1) == ["n0", "n1"]


def test_a_running_pod_stays_on_its_node_whatever_the_plan_says() -> None:
    cluster = CachedCluster(2, 1, 1)
    one = cluster.book("b-1", 0, 9, 1, ("n1", 1))
    cluster.book("b-2", 5, 7, 2, ("n0", 2), user="bob")
    running = a_pod("p").of("alice").with_annotation(names.BOOKING, "b-1")
    cluster.cache.of(PODS).upsert(running.asks(1).on("n2", {"main": ("GPU-n2-0",)}).obj)
    other = cluster.book("b-3", 0, 9, 1, ("n2", 1), user="carol")
    assert "n1" in cluster.nodes(other, 1)
    assert "n0" not in cluster.nodes(other, 1)
    assert cluster.nodes(one, 1) == []


def test_a_second_pod_may_go_off_its_booking_s_node_only_where_no_other_booking_needs_the_room() -> None:
    cluster = CachedCluster(2, 1)
    whole = cluster.book("b-1", 0, 9, 2, ("n0", 2))
    cluster.cache.of(PODS).upsert(a_pod("p").of("alice").asks(1).on("n0", {"main": ("GPU-n0-0",)}).obj)
    assert cluster.nodes(whole, 1) == ["n0", "n1"]
    cluster.book("b-2", 5, 7, 1, ("n1", 1), user="bob")
    assert cluster.nodes(whole, 1) == ["n0"]


def test_the_answer_is_the_same_object_until_something_changes() -> None:
    cluster = CachedCluster(2, 1)
    cluster.book("b-1", 5, 7, 2, ("n0", 2))
    first = cluster.booking_plans.places(cluster.clock.now())
    assert cluster.booking_plans.places(cluster.clock.now()) is first
    cluster.book("b-2", 5, 7, 1, ("n1", 1), user="bob")
    assert cluster.booking_plans.places(cluster.clock.now()) is not first


def test_a_pod_without_an_end_is_judged_from_the_cache_until_anything_changes() -> None:
    cluster = CachedCluster(1, 1)

    def bears() -> bool:
        permanent = cluster.booking_plans.permanent_pods(cluster.clock.now())
        assert cluster.booking_plans.permanent_pods(cluster.clock.now()) is permanent
        return permanent.allows_permanent("n0", {names.GPU_RESOURCE: 1}, frozenset())

    assert bears()
    one = cluster.book("b-1", 5, 7, 1, ("n0", 1))
    assert bears()
    two = cluster.book("b-2", 5, 7, 1, ("n1", 1), user="bob")
    assert not bears()
    cluster.cache.of(BOOKINGS).remove(two)
    assert bears()
    cluster.node(1, 0, version=2)
    assert not bears()
    cluster.node(1, 1, version=3)
    assert bears()
    protected = {"metadata": {"name": "default", "annotations": {names.NEVER_EVICT: "true"}}}
    cluster.cache.of(PODS).upsert(a_pod().asks(1).on("n1", {"main": ("GPU-n1-0",)}).obj)
    assert bears()
    cluster.cache.of(NAMESPACES).replace([msgspec.convert(protected, Namespace)])
    assert not bears()
    cluster.clock.advance((one.spec.end - START).total_seconds())
    assert bears()


@pytest.mark.parametrize("text", ["{", "[{}]"])
def test_unreadable_maintenance_is_ignored(text: str) -> None:
    cluster = CachedCluster(1)
    one = cluster.book("b-1", 0, 9, 1, ("n0", 1))
    node = a_node("n0", a100(0, "n0"), version=2)
    meta = msgspec.structs.replace(
        node.metadata, annotations={**(node.metadata.annotations or {}), names.BLOCKS: text}
    )
    cluster.cache.of(NODES).upsert(Node(metadata=meta))
    assert cluster.nodes(one, 1) == ["n0"]


def test_the_devices_of_a_pod_whose_booking_has_no_place_are_not_given_to_others() -> None:
    cluster = CachedCluster(2, 1)
    cluster.book("b-torn", 0, 9, 2)
    torn = a_pod("p").of("alice").with_annotation(names.BOOKING, "b-torn")
    cluster.cache.of(PODS).upsert(torn.asks(1).on("n1", {"main": ("GPU-n1-0",)}).obj)
    other = cluster.book("b-1", 0, 9, 1, ("n0", 1), user="bob")
    assert cluster.nodes(other, 1) == ["n0"]
