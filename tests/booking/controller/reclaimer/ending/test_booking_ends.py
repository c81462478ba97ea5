"""Pods end with their booking: once, never in doubt, and never a pod that another booking covers (law L6)."""

from datetime import timedelta

import pytest

from booking.controller.reclaimer.evictor import DECIDED_WITHIN
from cluster import event_reasons
from cluster.kube.errors import Refusal, Request, Unreachable, refused
from cluster.kube.resources import BOOKINGS
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH

HOUR = timedelta(hours=1)


@pytest.fixture
def cluster() -> FakeCluster:
    """Alice's pod runs on her booking, which ends in an hour; bob's pod runs without one."""
    cluster = FakeCluster()
    cluster.add_node()
    cluster.book(end=EPOCH + HOUR)
    cluster.waiting("a")
    cluster.bind("a", 0)
    cluster.opportunist("b", 1)
    cluster.reconcile()
    return cluster


def ending(cluster: FakeCluster, name: str = "b-1") -> list[str] | None:
    found = cluster.kube.get(BOOKINGS, name).status.ending
    return None if found is None else list(found)


def test_a_pod_that_was_never_bound_keeps_waiting_without_a_booking() -> None:
    cluster = FakeCluster()
    cluster.add_node(unschedulable=True)
    cluster.book(end=EPOCH + HOUR)
    cluster.waiting("a")
    cluster.after(3600)
    cluster.reconcile(2)
    assert ending(cluster) == []
    assert cluster.ended() == []
    assert cluster.exists("a")


def test_nothing_is_decided_until_the_watch_shows_that_the_covered_pod_is_bound() -> None:
    cluster = FakeCluster()
    cluster.add_node()
    cluster.book(end=EPOCH + HOUR)
    cluster.waiting("a")
    cluster.clock.advance(3600)
    cluster.renew()
    cluster.sync()
    cluster.bind("a", 0)
    cluster.reclaimer.reconcile()  # the cache still shows that it waits
    assert ending(cluster) is None
    cluster.after(1)
    assert ending(cluster) == ["uid-a"]
    cluster.reconcile()
    assert cluster.ended() == ["a"]


def test_a_pod_is_ended_once_and_followed_while_it_terminates(cluster: FakeCluster) -> None:
    cluster.after(3600)
    cluster.reconcile(3)
    cluster.after(5)
    assert cluster.ended() == ["a"]


def test_the_pods_that_end_are_chosen_once(cluster: FakeCluster) -> None:
    cluster.after(3600)
    assert ending(cluster) == ["uid-a"]
    raw = cluster.kube.raw(BOOKINGS, "b-1")
    raw["status"]["ending"] = []
    cluster.kube.put(BOOKINGS, raw)
    cluster.after(10)
    assert cluster.ended() == []


def test_a_pod_about_to_end_is_spared_when_a_booking_covers_it_at_the_last_moment(
    cluster: FakeCluster,
) -> None:
    cluster.after(3600)
    cluster.book("b-2", start=EPOCH + HOUR, end=EPOCH + 2 * HOUR)
    cluster.reconcile(2)
    assert ending(cluster) == ["uid-a"]
    assert cluster.ended() == []


def test_a_booking_whose_end_was_just_moved_ends_no_pod(cluster: FakeCluster) -> None:
    cluster.clock.advance(3600)
    cluster.renew()
    cluster.sync()
    cluster.end_booking(at=EPOCH + 2 * HOUR)
    cluster.reclaimer.reconcile()
    assert ending(cluster) is None
    cluster.reconcile(2)
    assert cluster.ended() == []


def test_moving_the_end_after_the_decision_spares_the_pod(cluster: FakeCluster) -> None:
    cluster.after(3600)
    cluster.end_booking(at=EPOCH + 2 * HOUR)
    cluster.reclaimer.reconcile()  # the cache still shows the old end
    cluster.reconcile(2)
    assert cluster.ended() == []


def test_a_booking_missing_from_the_api_server_ends_no_pod(cluster: FakeCluster) -> None:
    cluster.clock.advance(3600)
    cluster.renew()
    cluster.sync()
    cluster.kube.delete(BOOKINGS, "b-1")
    cluster.reclaimer.reconcile()
    assert cluster.ended() == []


def test_a_failed_end_is_retried(cluster: FakeCluster) -> None:
    cluster.after(3600)
    cluster.evictor.failing.append(Unreachable(Request("DELETE", "/"), "connection refused"))
    cluster.reconcile()
    assert cluster.ended() == []
    cluster.after(1)
    assert cluster.ended() == ["a"]


def test_a_reclaimer_that_starts_days_later_still_ends_the_pod(cluster: FakeCluster) -> None:
    cluster.leads = False
    cluster.after(3 * 86400)
    assert ending(cluster) is None
    cluster.leads = True
    cluster.reconcile(2)
    assert cluster.ended() == ["a"]


def test_a_controller_that_stalled_between_decision_and_end_checks_again_first(cluster: FakeCluster) -> None:
    def booked_meanwhile() -> None:
        cluster.clock.advance(DECIDED_WITHIN + 0.1)
        cluster.book("b-2")

    cluster.after(3600)
    cluster.evictor.meanwhile = booked_meanwhile
    cluster.reconcile()
    cluster.evictor.meanwhile = lambda: None
    cluster.renew()
    cluster.reconcile(3)
    assert cluster.ended() == []


def test_an_end_that_took_long_to_prepare_is_checked_again_and_carried_out(cluster: FakeCluster) -> None:
    cluster.after(3600)
    cluster.evictor.meanwhile = lambda: cluster.clock.advance(DECIDED_WITHIN + 0.1)
    cluster.reconcile()
    assert cluster.ended() == ["a"]


@pytest.mark.parametrize("code", [403, 409, 429])
def test_an_end_that_is_refused_is_tried_less_and_less_often_and_reported_once(
    cluster: FakeCluster, code: int
) -> None:
    denied = Refusal(code=code, message="it is migrated")
    cluster.evictor.failing += [refused(Request("DELETE", "/"), denied)] * 99
    cluster.after(3600)
    for _ in range(180):
        cluster.after(1)
    assert 99 - len(cluster.evictor.failing) < 12
    blocked = [message for _, reason, message in cluster.events if reason == event_reasons.EVICTIONS_BLOCKED]
    assert ["b-1" in message and "it is migrated" in message for message in blocked] == [True]
    cluster.evictor.failing.clear()
    cluster.after(60)
    assert cluster.ended() == ["a"]


@pytest.mark.parametrize(("code", "is_status"), [(409, True), (429, False)])
def test_a_race_or_an_overloaded_api_server_is_not_reported(
    cluster: FakeCluster, code: int, *, is_status: bool
) -> None:
    denied = Refusal(code=code, message="busy", is_status=is_status)
    cluster.evictor.failing += [refused(Request("DELETE", "/"), denied)] * 2
    cluster.after(3600)
    for _ in range(6):
        cluster.after(1)
    assert cluster.ended() == ["a"]
    assert event_reasons.EVICTIONS_BLOCKED not in cluster.reasons("a")
