"""Pods end with their booking: once, never in doubt, and never a pod that another booking covers (law L6)."""

from datetime import timedelta

import pytest

from booking.controller.reclaimer.evictor import DECIDED_WITHIN
from booking.controller.reclaimer.snapshot import MIRROR_STALE_AFTER
from cluster import event_reasons, names
from cluster.kube.errors import Refusal, Request, Unreachable, refused
from cluster.kube.resources import BOOKINGS
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH, a_pod

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


def test_nothing_ends_before_the_end(cluster: FakeCluster) -> None:
    cluster.after(3599)
    assert ending(cluster) is None
    assert cluster.ended() == []


def test_only_the_covered_pod_ends_at_the_end_of_its_booking(cluster: FakeCluster) -> None:
    cluster.after(3600)
    assert ending(cluster) == ["uid-a"]
    cluster.reconcile()
    assert cluster.ended() == ["a"]
    assert cluster.exists("b")


def test_releasing_a_booking_ends_its_pod(cluster: FakeCluster) -> None:
    cluster.clock.advance(60)
    cluster.renew()
    cluster.end_booking()
    cluster.reconcile(2)
    assert cluster.ended() == ["a"]


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


def test_a_pod_that_another_booking_covers_by_now_keeps_running(cluster: FakeCluster) -> None:
    cluster.book("b-2", start=EPOCH + HOUR, end=EPOCH + 2 * HOUR)
    cluster.after(3600)
    cluster.reconcile(2)
    assert cluster.ended() == []
    assert cluster.annotation("a", names.BOOKING) == "b-2"


def test_a_pod_about_to_end_is_spared_when_a_booking_covers_it_at_the_last_moment(
    cluster: FakeCluster,
) -> None:
    cluster.after(3600)
    cluster.book("b-2", start=EPOCH + HOUR, end=EPOCH + 2 * HOUR)
    cluster.reconcile(2)
    assert ending(cluster) == ["uid-a"]
    assert cluster.ended() == []


def test_a_pod_that_was_created_after_the_end_does_not_end(cluster: FakeCluster) -> None:
    cluster.clock.advance(3600)
    cluster.gone("a")
    later = {"metadata": {"creationTimestamp": "2026-11-23T10:00:00Z"}}
    cluster.create(a_pod("new").of("alice").asks(1), later)
    cluster.renew()
    cluster.reconcile(2)
    assert ending(cluster) == []


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


def test_nothing_is_decided_or_ended_while_the_mirror_is_stale(cluster: FakeCluster) -> None:
    cluster.stop_mirror()
    cluster.after(3600)
    cluster.reconcile(3)
    assert ending(cluster) is None


def test_decided_ends_wait_for_the_mirror(cluster: FakeCluster) -> None:
    cluster.after(3600)
    assert ending(cluster) == ["uid-a"]
    cluster.stop_mirror()
    cluster.clock.advance(MIRROR_STALE_AFTER)
    cluster.renew()
    cluster.reconcile(2)
    assert cluster.ended() == []
    assert cluster.evictor.wanted == frozenset()


def test_evictions_continue_while_the_mirror_is_stale() -> None:
    cluster = FakeCluster().contended()
    cluster.stop_mirror()
    cluster.after(600)
    cluster.reconcile(2)
    assert cluster.evicted() == ["b3"]


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


def test_a_booking_of_one_gpu_ends_the_one_pod_that_it_covered(cluster: FakeCluster) -> None:
    cluster.create(a_pod("early").of("alice").asks(1).on("n0", {"main": ("GPU-n0-2",)}), older(hours=5))
    cluster.reconcile()
    assert cluster.annotation("a", names.BOOKING) == "b-1"
    assert cluster.annotation("early", names.BOOKING) is None
    cluster.after(3600)
    assert ending(cluster) == ["uid-a"]


def test_a_process_restarted_between_the_steps_carries_on(cluster: FakeCluster) -> None:
    cluster.restart()
    cluster.after(3600)
    cluster.restart()
    cluster.reconcile()
    cluster.restart()
    cluster.reconcile(2)
    assert cluster.ended() == ["a"]


def test_a_reclaimer_that_starts_days_later_still_ends_the_pod(cluster: FakeCluster) -> None:
    cluster.leads = False
    cluster.after(3 * 86400)
    assert ending(cluster) is None
    cluster.leads = True
    cluster.reconcile(2)
    assert cluster.ended() == ["a"]


def older(*, hours: int) -> dict[str, object]:
    at = EPOCH - timedelta(hours=hours)
    return {"metadata": {"creationTimestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ")}}


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
