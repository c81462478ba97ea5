"""What a watch has not delivered yet is read directly."""

from cluster.cache import ClusterCache, read_bookings
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.resources import BOOKINGS


def a_body(name: str, count: int = 1) -> dict[str, object]:
    spec = {
        "user": "alice",
        "model": "NVIDIA-A100-SXM4-80GB",
        "count": count,
        "start": "2026-11-23T09:00:00Z",
        "end": "2026-11-25T09:00:00Z",
    }
    return {"metadata": {"name": name}, "spec": spec}


def test_bookings_that_are_new_or_newer_come_into_the_cache() -> None:
    clock = FakeClock()
    kube, cache = FakeKube(clock), ClusterCache(clock)
    cache.apply_booking(kube.create(BOOKINGS, a_body("b-1")))
    kube.patch(BOOKINGS, "b-1", {"spec": {"count": 2}})
    kube.create(BOOKINGS, a_body("b-2"))

    read_bookings(kube, cache)

    assert {name: booking.spec.count for name, booking in cache.bookings.items()} == {"b-1": 2, "b-2": 1}
