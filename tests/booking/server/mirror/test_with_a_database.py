"""Law L9 with a real database file: what can happen to a file happens, and no object is lost."""

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from booking.server.metrics import ServerMetrics
from booking.server.mirror.lease import MirrorLease
from booking.server.mirror.mirror import Mirror
from booking.server.store import Store, open_store
from cluster import names
from cluster.fake.clock import START, FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.resources import BOOKINGS, LEASES
from tests.booking.server.mirror.memory_source import a_record


class Site:
    """A cluster, a folder with a database, and servers that come and go."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "bookings.db"
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.stores: list[Store] = []

    def server(self) -> tuple[Store, Mirror]:
        """A server that is started now."""
        store = open_store(f"sqlite:///{self.file}")
        self.stores.append(store)
        lease = MirrorLease(self.kube, self.clock, namespace=names.NAMESPACE, holder="server")
        metrics = ServerMetrics(CollectorRegistry())
        return store, Mirror(self.kube, store, self.clock, lease=lease, metrics=metrics)

    def end(self, store: Store) -> None:
        """Stop the server."""
        self.stores.remove(store)
        store.close()

    def book(self, store: Store, name: str) -> None:
        store.write(lambda writing: writing.add(a_record(name)))

    @property
    def objects(self) -> list[str]:
        return [booking.name for booking in self.kube.list(BOOKINGS).items]

    def expect_stopped(self, mirror: Mirror) -> None:
        before = self.objects
        assert not mirror.round()
        assert mirror.is_stopped
        assert self.objects == before

    def close(self) -> None:
        for store in list(self.stores):
            self.end(store)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def test_a_booking_is_written_released_and_deleted_after_a_week(site: Site) -> None:
    store, mirror = site.server()
    site.book(store, "b-1")
    assert mirror.round()
    store.write(
        lambda writing: writing.replace(a_record("b-1", end=START + timedelta(hours=1), released=START))
    )
    assert mirror.round()
    assert site.kube.get(BOOKINGS, "b-1").spec.end == START + timedelta(hours=1)

    site.clock.advance(timedelta(days=7, hours=1).total_seconds())
    assert mirror.round()
    assert site.objects == []


def test_l9_a_restarted_server_continues_where_the_previous_one_stopped(site: Site) -> None:
    store, mirror = site.server()
    site.book(store, "b-1")
    mirror.round()
    site.book(store, "b-2")

    _, again = site.server()
    assert again.round()
    assert site.objects == ["b-1", "b-2"]


def test_l9_moving_the_file_away_stops_the_mirror_until_it_is_back(site: Site) -> None:
    store, mirror = site.server()
    site.book(store, "b-1")
    mirror.round()
    away = site.file.with_suffix(".away")
    site.file.rename(away)
    site.expect_stopped(mirror)

    away.rename(site.file)
    assert mirror.round()


def test_l9_replacing_the_file_under_the_server_stops_the_mirror(site: Site) -> None:
    store, mirror = site.server()
    site.book(store, "b-1")
    mirror.round()
    site.file.rename(site.file.with_suffix(".away"))
    open_store(f"sqlite:///{site.file}").close()

    site.expect_stopped(mirror)


def test_l9_a_server_started_without_its_file_deletes_nothing(site: Site) -> None:
    store, mirror = site.server()
    site.book(store, "b-1")
    mirror.round()
    site.end(store)
    site.file.unlink()

    _, again = site.server()
    site.expect_stopped(again)
    assert f"kubectl delete bookings.{names.DOMAIN} b-1" in (again.unready_reason() or "")


def test_l9_a_server_started_on_an_older_copy_deletes_nothing(site: Site) -> None:
    store, mirror = site.server()
    site.book(store, "b-1")
    mirror.round()
    site.end(store)
    copy = site.file.with_suffix(".copy")
    shutil.copy(site.file, copy)
    store, mirror = site.server()
    site.book(store, "b-2")
    mirror.round()
    site.end(store)
    site.file.unlink()
    copy.rename(site.file)

    _, again = site.server()
    site.expect_stopped(again)
    assert "(b-2)" in (again.unready_reason() or "")
    site.kube.delete(BOOKINGS, "b-2")
    site.expect_stopped(again)
    assert "kubectl delete lease gpu-booking-mirror -n gpu-booking" in (again.unready_reason() or "")
    site.kube.delete(LEASES, names.MIRROR_LEASE, namespace=names.NAMESPACE)
    assert again.round()
    assert site.objects == ["b-1"]


def test_l9_an_older_copy_without_a_cancellation_creates_nothing_again(site: Site) -> None:
    store, mirror = site.server()
    site.book(store, "b-1")
    mirror.round()
    site.end(store)
    copy = site.file.with_suffix(".copy")
    shutil.copy(site.file, copy)
    store, mirror = site.server()
    store.write(lambda writing: writing.replace(a_record("b-1", cancelled=START)))
    assert mirror.round()
    assert site.objects == []
    site.end(store)
    site.file.unlink()
    copy.rename(site.file)

    _, again = site.server()
    site.expect_stopped(again)
