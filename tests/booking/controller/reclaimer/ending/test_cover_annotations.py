"""What people read on a pod is true: which booking covers it, and when it must end."""

from datetime import timedelta

import pytest

from cluster import names
from cluster.kube.errors import Request, Unreachable
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH, a_pod


@pytest.fixture
def cluster() -> FakeCluster:
    """Alice's pod runs; she has no booking yet."""
    cluster = FakeCluster()
    cluster.add_node()
    cluster.waiting("a")
    cluster.bind("a", 0)
    cluster.reconcile()
    return cluster


def cover_of(cluster: FakeCluster, name: str = "a") -> tuple[str | None, str | None]:
    return cluster.annotation(name, names.BOOKING), cluster.annotation(name, names.TERMINATE_AT)


def patches(cluster: FakeCluster) -> int:
    return sum(call.verb == "PATCH" for call in cluster.kube.calls)


def test_a_pod_without_cover_has_no_annotations_and_is_not_written(cluster: FakeCluster) -> None:
    assert cover_of(cluster) == (None, None)
    assert patches(cluster) == 0


def test_a_running_pod_is_adopted_by_one_write(cluster: FakeCluster) -> None:
    cluster.book()
    cluster.reconcile(3)
    assert cover_of(cluster) == ("b-1", "2026-11-25T09:00:00Z")
    assert patches(cluster) == 1


def test_prolonging_a_booking_updates_the_end_and_touches_nothing_else(cluster: FakeCluster) -> None:
    cluster.book()
    cluster.reconcile(2)
    before = cluster.pod("a")
    cluster.end_booking(at=EPOCH + timedelta(days=3))
    cluster.reconcile(2)
    after = cluster.pod("a")
    assert cover_of(cluster) == ("b-1", "2026-11-26T09:00:00Z")
    assert (after.spec, after.status) == (before.spec, before.status)


def test_equivalent_annotations_in_another_spelling_are_left_alone(cluster: FakeCluster) -> None:
    cluster.annotate("a", names.BOOKING, "b-1")
    cluster.annotate("a", names.TERMINATE_AT, "2026-11-25T10:00:00.5+01:00")
    cluster.book()
    cluster.reconcile(2)
    assert patches(cluster) == 0


def test_a_forged_annotation_is_removed(cluster: FakeCluster) -> None:
    cluster.annotate("a", names.BOOKING, "b-of-somebody")
    cluster.annotate("a", names.TERMINATE_AT, "2099-01-01T00:00:00Z")
    cluster.reconcile(2)
    assert cover_of(cluster) == (None, None)


def test_a_pod_that_does_not_end_with_its_booking_loses_the_cover_annotations(cluster: FakeCluster) -> None:
    cluster.book(end=EPOCH + timedelta(hours=1))
    cluster.reconcile()
    cluster.create(a_pod("forger").of("alice").asks(1).with_annotation(names.BOOKING, "b-1"))
    cluster.after(3600)
    cluster.reconcile(2)
    assert cluster.ended() == ["a"]
    assert cluster.annotation("forger", names.BOOKING) is None


def test_a_failed_write_is_retried_and_delays_no_other_pod(cluster: FakeCluster) -> None:
    cluster.book(count=2)
    cluster.waiting("a2")
    cluster.kube.fail("PATCH", Unreachable(Request("PATCH", "/"), "connection refused"))
    cluster.reconcile()
    assert {cover_of(cluster)[0], cover_of(cluster, "a2")[0]} == {"b-1", None}
    cluster.after(1)
    assert {cover_of(cluster)[0], cover_of(cluster, "a2")[0]} == {"b-1"}
