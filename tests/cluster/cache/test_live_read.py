"""What a watch has not delivered yet is read directly."""

import pytest

from cluster.cache import ClusterCache, read_bookings
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.errors import Unreachable
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


def test_new_and_newer_bookings_are_put_into_the_cache() -> None:
    clock = FakeClock()
    kube, cache = FakeKube(clock), ClusterCache(clock)
    cache.of(BOOKINGS).upsert(kube.create(BOOKINGS, a_body("b-1")))
    kube.patch(BOOKINGS, "b-1", {"spec": {"count": 2}})
    kube.create(BOOKINGS, a_body("b-2"))

    read_bookings(kube, cache)

    assert {name: booking.spec.count for name, booking in cache.bookings.items()} == {"b-1": 2, "b-2": 1}


class Watched:
    """An API server, and a cache that no watch keeps current."""

    def __init__(self) -> None:
        clock = FakeClock()
        self.kube, self.cache = FakeKube(clock), ClusterCache(clock)
        self.changes = 0
        self.kube.create(BOOKINGS, a_body("b-1"))
        read_bookings(self.kube, self.cache)
        self.cache.on_change(self._count)

    def _count(self) -> None:
        self.changes += 1

    @property
    def known(self) -> dict[str, int]:
        return {name: booking.spec.count for name, booking in self.cache.bookings.items()}


def test_unchanged_bookings_are_no_change() -> None:
    watched = Watched()
    before = watched.cache.bookings
    read_bookings(watched.kube, watched.cache)
    assert (watched.changes, watched.cache.bookings) == (0, before)
    watched.kube.patch(BOOKINGS, "b-1", {"spec": {"count": 2}})
    read_bookings(watched.kube, watched.cache)
    assert (watched.changes, watched.known) == (1, {"b-1": 2})


def test_a_deleted_booking_stays_until_the_watch_reports_the_deletion() -> None:
    """A read finds new bookings; a missing one does not show when it was deleted."""
    watched = Watched()
    watched.kube.delete(BOOKINGS, "b-1")
    read_bookings(watched.kube, watched.cache)
    assert watched.known == {"b-1": 1}


def test_a_read_that_fails_is_an_error_and_changes_nothing() -> None:
    watched = Watched()
    watched.kube.create(BOOKINGS, a_body("b-2"))
    watched.kube.down = True
    with pytest.raises(Unreachable):
        read_bookings(watched.kube, watched.cache)
    assert (watched.changes, watched.known) == (0, {"b-1": 1})
