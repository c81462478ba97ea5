"""L9: the state after a restart equals the state before it, and no mirror deletes what has not run out."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from cluster import names
from cluster.fake.merging import merged
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH
from tests.laws.breaking import breaks
from tests.laws.broken import LawBrokenError
from tests.laws.changes import Maker
from tests.laws.l9 import assert_unchanged
from tests.laws.memory import watch_memory
from tests.laws.watcher import LawWatcher

DAY = timedelta(days=1)


def mirrored(cluster: FakeCluster, *, store: str) -> None:
    """The mirror says of which database it is."""
    lease = cluster.kube.raw(LEASES, names.MIRROR_LEASE, namespace=names.NAMESPACE)
    cluster.kube.put(LEASES, merged(lease, {"metadata": {"annotations": {names.STORE: store}}}))


def booked(cluster: FakeCluster, **more: Any) -> None:
    """A booking of the database ``s-1``."""
    cluster.book("b-1", **more)
    cluster.kube.patch(BOOKINGS, "b-1", {"spec": {"storeId": "s-1"}})


@pytest.mark.parametrize("days", [0, 1, 8])
def test_a_booking_that_is_deleted_before_its_time_breaks_it(
    cluster: FakeCluster, laws: LawWatcher, days: int
) -> None:
    mirrored(cluster, store="s-1")
    booked(cluster, end=EPOCH + 2 * DAY)
    cluster.clock.advance(DAY.total_seconds() * days)
    with breaks(laws, "L9", "The Booking b-1 is deleted, which must stay until 2026-12-02"):
        cluster.kube.delete(BOOKINGS, "b-1")


def test_a_booking_is_deleted_when_its_time_has_come(cluster: FakeCluster, laws: LawWatcher) -> None:
    mirrored(cluster, store="s-1")
    booked(cluster, end=EPOCH + 2 * DAY)
    cluster.clock.advance(DAY.total_seconds() * 9)
    cluster.kube.delete(BOOKINGS, "b-1")
    laws.check()


def test_a_booking_that_has_not_begun_may_be_cancelled(cluster: FakeCluster, laws: LawWatcher) -> None:
    mirrored(cluster, store="s-1")
    booked(cluster, start=EPOCH + DAY, end=EPOCH + 2 * DAY)
    cluster.kube.delete(BOOKINGS, "b-1")
    laws.check()


@pytest.mark.parametrize(
    ("store", "reported"), [("s-2", "by server, whose database is s-2"), (None, "by server, who has none")]
)
def test_a_planned_booking_that_is_deleted_by_another_database_breaks_it(
    cluster: FakeCluster, store: str | None, reported: str
) -> None:
    booked(cluster, start=EPOCH + DAY, end=EPOCH + 2 * DAY)
    laws = played_by(cluster, Maker(name="server", is_ours=True, store=store))
    cluster.waiting("a")
    with breaks(laws, "L9", f"The Booking b-1 of the database s-1 is deleted {reported}"):
        cluster.kube.delete(BOOKINGS, "b-1")


@pytest.mark.parametrize(
    "maker", [Maker(name="server", is_ours=True, store="s-1"), Maker(name="controllers")], ids=str
)
def test_a_planned_booking_may_be_deleted_by_its_own_database_and_by_others_than_our_parts(
    cluster: FakeCluster, maker: Maker
) -> None:
    booked(cluster, start=EPOCH + DAY, end=EPOCH + 2 * DAY)
    laws = played_by(cluster, maker)
    cluster.kube.delete(BOOKINGS, "b-1")
    laws.check()


def played_by(cluster: FakeCluster, maker: Maker) -> LawWatcher:
    """Watches a cluster in which this one writes, and knows the writer."""
    return watch_memory(cluster.kube, cluster.clock, maker=lambda: maker)


def test_a_booking_of_another_database_is_a_persons_to_delete(cluster: FakeCluster, laws: LawWatcher) -> None:
    mirrored(cluster, store="s-2")
    booked(cluster)
    cluster.kube.delete(BOOKINGS, "b-1")
    laws.check()


@pytest.fixture
def served(cluster: FakeCluster) -> FakeCluster:
    """Alice's pod runs by her booking."""
    cluster.book()
    cluster.waiting("a")
    cluster.bind("a", 0)
    return cluster


def test_renewals_and_heartbeats_are_no_change(served: FakeCluster, laws: LawWatcher) -> None:
    before = laws.fingerprint()
    served.clock.advance(30)
    served.renew()
    served.kube.patch(PODS, "a", {"status": {"phase": "Running"}}, namespace="default", subresource="status")
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    served.kube.patch(NODES, "n0", ready, subresource="status")
    assert_unchanged(before, laws.fingerprint())


@pytest.mark.parametrize("what", ["annotation", "hold", "pod", "booking", "drift"])
def test_any_change_by_a_restart_breaks_it(served: FakeCluster, laws: LawWatcher, what: str) -> None:
    before = laws.fingerprint()
    if what == "annotation":
        served.annotate("a", names.BOOKING, "b-1")
    elif what == "hold":
        served.annotate("a", names.HOLD, '{"node": "n0", "devices": []}')
    elif what == "pod":
        served.gone("a")
    elif what == "booking":
        served.end_booking()
    else:
        served.kube.patch(NODES, "n0", {"metadata": {"annotations": {names.DRIFT: "{}"}}})
    with pytest.raises(LawBrokenError, match="A restart has changed") as caught:
        assert_unchanged(before, laws.fingerprint())
    assert caught.value.law == "L9"


# --- whose bookings are there --------------------------------------------------------------------------
def says(cluster: FakeCluster, *, store: str, change: int = 1) -> None:
    """The mirror renews its Lease, and says up to which change of which database it has written."""
    cluster.clock.advance(5)
    annotations = {names.STORE: store, names.CHANGE: str(change)}
    meta = {"name": names.MIRROR_LEASE, "namespace": names.NAMESPACE, "annotations": annotations}
    cluster.kube.put(LEASES, {"metadata": meta, "spec": {"renewTime": cluster.clock.now().isoformat()}})


def test_a_mirror_that_goes_on_while_there_are_bookings_of_another_database_breaks_it(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    says(cluster, store="s-1")
    booked(cluster)
    says(cluster, store="s-1", change=2)
    with breaks(laws, "L9", "that the Bookings are true of the database s-2, and b-1 is of s-1"):
        says(cluster, store="s-2")


def test_a_booking_of_another_database_than_the_others_breaks_it(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    booked(cluster)
    spec = cluster.kube.raw(BOOKINGS, "b-1")["spec"] | {"storeId": "s-2"}
    with breaks(laws, "L9", "The Booking b-2 is written of the database s-2, and b-1 is of s-1"):
        cluster.kube.put(BOOKINGS, {"metadata": {"name": "b-2"}, "spec": spec})


def test_a_booking_that_goes_over_to_another_database_breaks_it(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    booked(cluster)
    with breaks(laws, "L9", "The Booking b-1 was of the database s-1, and is made one of s-2"):
        cluster.kube.patch(BOOKINGS, "b-1", {"spec": {"storeId": "s-2"}})


def test_a_mirror_that_has_forgotten_changes_breaks_it(cluster: FakeCluster, laws: LawWatcher) -> None:
    says(cluster, store="s-1", change=10)
    with breaks(laws, "L9", "has said that change 10 is written, and now says that 9 is the newest"):
        says(cluster, store="s-1", change=9)


def test_a_mirror_that_goes_over_to_another_database_when_planned_bookings_have_vanished_breaks_it(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    says(cluster, store="s-1", change=10)
    booked(cluster, start=EPOCH + DAY, end=EPOCH + 2 * DAY)
    cluster.kube.delete(BOOKINGS, "b-1")
    laws.check()
    with breaks(laws, "L9", "goes over from the database s-1 to s-2, and b-1 of s-1, planned"):
        says(cluster, store="s-2", change=1)


def test_another_database_may_be_mirrored_where_the_missing_bookings_were_cancelled(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    says(cluster, store="s-1", change=10)
    booked(cluster, start=EPOCH + DAY, end=EPOCH + 2 * DAY)
    cluster.kube.delete(BOOKINGS, "b-1")
    says(cluster, store="s-1", change=11)
    says(cluster, store="s-2", change=1)
    laws.check()


@pytest.mark.parametrize("start", [EPOCH, EPOCH + DAY], ids=["running", "planned"])
def test_another_database_may_be_mirrored_where_a_person_has_deleted_everything(
    cluster: FakeCluster, laws: LawWatcher, start: datetime
) -> None:
    says(cluster, store="s-1", change=10)
    booked(cluster, start=start, end=EPOCH + 2 * DAY)
    cluster.kube.delete(LEASES, names.MIRROR_LEASE, namespace=names.NAMESPACE)
    cluster.kube.delete(BOOKINGS, "b-1")
    says(cluster, store="s-2", change=1)
    cluster.kube.delete(LEASES, names.MIRROR_LEASE, namespace=names.NAMESPACE)
    says(cluster, store="s-2", change=0)
    laws.check()


def test_another_database_may_be_mirrored_where_a_person_is_known_to_have_deleted_the_bookings(
    cluster: FakeCluster,
) -> None:
    who = [Maker(name="server", is_ours=True, store="s-2")]
    laws = watch_memory(cluster.kube, cluster.clock, maker=lambda: who[0] if who else None)
    says(cluster, store="s-1")
    booked(cluster, start=EPOCH + DAY, end=EPOCH + 2 * DAY)
    server = who.pop()
    cluster.kube.delete(BOOKINGS, "b-1")
    who.append(server)
    says(cluster, store="s-2")
    laws.check()


def test_another_database_changes_the_fingerprint(served: FakeCluster, laws: LawWatcher) -> None:
    says(served, store="s-1")
    before = laws.fingerprint()
    says(served, store="s-1", change=2)
    assert_unchanged(before, laws.fingerprint())
    says(served, store="s-2")
    with pytest.raises(LawBrokenError, match="A restart has changed the mirror's database"):
        assert_unchanged(before, laws.fingerprint())
