"""Bookable, lent, idle though booked, in use: each GPU of a snapshot, and the sums by model."""

from datetime import timedelta
from typing import Final

import msgspec

from booking.eviction.settings import EvictionSettings
from booking.principals import Principal
from booking.server.cluster_status.now import Now, now_of
from booking.server.cluster_status.snapshot import take
from booking.server.cluster_status.standings import ModelNow
from booking.server.cluster_status.viewer import Viewer
from cluster import names
from cluster.cache import ClusterCache
from cluster.fake.clock import FakeClock
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS
from cluster.objects.bookings import Place
from cluster.objects.hold import Hold, encode_hold
from cluster.objects.maintenance import MaintenanceBlock, encode_blocks
from tests.fakes.objects import A100, EPOCH, PodBuilder, a100, a_booking, a_lease, a_node, a_pod

DAY: Final = timedelta(days=1)
BOOKABLE: Final = {A100: 7}
"""What the calendar is said to leave."""


class Cluster:
    """Two nodes with four GPUs each, at ``EPOCH``."""

    def __init__(self) -> None:
        self.clock = FakeClock(EPOCH)
        self.cache = ClusterCache(self.clock)
        for name in ("n0", "n1"):
            self.cache.of(NODES).upsert(a_node(name, *(a100(index, name) for index in range(4))))
            self.cache.of(LEASES).upsert(a_lease(name))

    def book(self, *places: Place, count: int = 2) -> None:
        self.cache.of(BOOKINGS).upsert(
            a_booking(
                count=count,
                places=[msgspec.to_builtins(place) for place in places],
                start=EPOCH,
                end=EPOCH + DAY,
            )
        )

    def run(self, user: str, node: str, *indices: int) -> None:
        devices = tuple(f"GPU-{node}-{index}" for index in indices)
        self.cache.of(PODS).upsert(
            a_pod(f"{user}-{node}").of(user).asks(len(devices)).on(node, {"main": devices}).obj
        )

    def pod(self, pod: PodBuilder) -> None:
        self.cache.of(PODS).upsert(pod.obj)

    def standings(self, node: str = "n0") -> list[str | None]:
        found = next(one for one in self.now().nodes if one.node == node)
        return [device.standing for device in found.devices]

    @property
    def model(self) -> ModelNow:
        (found,) = self.now().models
        return found

    def now(self) -> Now:
        snapshot = take(self.cache, self.clock, EvictionSettings())
        viewer = Viewer(Principal(user="alice", name="alice"), "load")
        return now_of(snapshot, viewer, bookable=BOOKABLE)


def test_a_booked_gpu_that_nobody_uses_is_seen_at_once_where_the_booking_has_it() -> None:
    cluster = Cluster()
    cluster.book(Place(node="n1", count=2))
    assert cluster.standings("n0") == ["bookable"] * 4
    assert cluster.standings("n1") == ["idle_though_booked"] * 2 + ["bookable"] * 2
    assert cluster.model == ModelNow(model=A100, gpus=8, bookable=7, lent=0, idle_though_booked=2, in_use=0)


def test_a_gpu_is_in_use_by_its_booked_pod_and_lent_to_any_other() -> None:
    cluster = Cluster()
    cluster.book(Place(node="n0", count=2))
    cluster.run("alice", "n0", 3)
    cluster.run("bob", "n0", 0, 1)
    assert cluster.standings() == ["lent", "lent", "idle_though_booked", "in_use"]


def test_what_others_have_borrowed_of_a_booking_is_lent_and_not_idle() -> None:
    cluster = Cluster()
    cluster.book(Place(node="n0", count=2))
    cluster.run("bob", "n0", 0, 1, 2, 3)
    assert cluster.standings() == ["lent"] * 4
    assert cluster.model.idle_though_booked == 0


def test_a_pod_outside_its_bookings_place_uses_the_booking_up() -> None:
    cluster = Cluster()
    cluster.book(Place(node="n0", count=2))
    cluster.run("alice", "n1", 0, 1)
    assert cluster.standings("n0") == ["bookable"] * 4


def test_a_booking_without_a_place_is_idle_on_any_node_with_gpus_that_nobody_holds() -> None:
    cluster = Cluster()
    cluster.run("bob", "n0", 0, 1, 2)
    cluster.book(count=3)
    assert cluster.standings("n0") == ["lent"] * 3 + ["idle_though_booked"]
    assert cluster.standings("n1") == ["idle_though_booked"] * 2 + ["bookable"] * 2


def test_a_gpu_that_is_kept_for_a_booked_pod_is_in_use() -> None:
    cluster = Cluster()
    cluster.book(Place(node="n0", count=1), count=1)
    hold = encode_hold(Hold(node="n0", devices=("GPU-n0-1",), victims=(), at=EPOCH))
    cluster.pod(a_pod("waits").of("alice").asks(1).with_annotation(names.HOLD, hold))
    assert cluster.standings() == ["bookable", "in_use", "bookable", "bookable"]


def test_gpus_in_maintenance_unhealthy_or_out_of_reach_are_not_bookable() -> None:
    cluster = Cluster()
    block = MaintenanceBlock(start=EPOCH - DAY, end=EPOCH + DAY, count=2)
    node = a_node(
        "n0",
        *(a100(index) for index in range(3)),
        a100(3, health="unhealthy"),
        blocks=encode_blocks([block]),
        version=2,
    )
    cluster.cache.of(NODES).upsert(node)
    assert cluster.standings() == ["bookable", None, None, None]
    cluster.clock.advance(75)
    assert cluster.standings("n1") == [None] * 4


def test_only_running_bookings_leave_gpus_idle() -> None:
    cluster = Cluster()
    cluster.book(Place(node="n0", count=2))
    cluster.clock.advance(int(DAY.total_seconds()))
    for name in ("n0", "n1"):
        cluster.cache.of(LEASES).upsert(a_lease(name, renewed=cluster.clock.now(), version=2))
    assert cluster.standings() == ["bookable"] * 4
