"""What happens to a pod at the end of its booking, by policy: it comes back, is deleted, or stays."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from booking.eviction.settings import EndAction, EvictionSettings
from cluster import event_reasons, names
from cluster.kube.resources import BOOKINGS
from cluster.objects.bookings import Booking
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH, a_pod

HOUR = timedelta(hours=1)
OWNED: dict[str, Any] = {
    "metadata": {"ownerReferences": [{"kind": "ReplicaSet", "name": "r", "uid": "o", "controller": True}]}
}


def ended(terms: EvictionSettings, *, minutes: float = 0) -> FakeCluster:
    """Alice's bare pod and a controller's pod ran on her booking of two GPUs, which has just ended."""
    cluster = FakeCluster(terms=terms)
    cluster.add_node()
    cluster.book(count=2, end=EPOCH + HOUR)
    cluster.create(a_pod("bare").of("alice").asks(1))
    cluster.create(a_pod("owned").of("alice").asks(1), OWNED)
    cluster.bind("bare", 0)
    cluster.bind("owned", 1)
    cluster.reconcile()
    cluster.after(3600 + 60 * minutes)
    cluster.reconcile(2)
    return cluster


def decided(cluster: FakeCluster, name: str = "b-1") -> tuple[tuple[str, ...] | None, str | None]:
    booking: Booking = cluster.kube.get(BOOKINGS, name)
    return booking.status.ending, booking.status.back


def cover_of(cluster: FakeCluster, name: str) -> tuple[str | None, str | None]:
    return cluster.annotation(name, names.BOOKING), cluster.annotation(name, names.TERMINATE_AT)


def test_one_event_reports_that_a_pod_that_stays_is_opportunistic_from_now_on() -> None:
    cluster = ended(EvictionSettings())
    cluster.restart()
    cluster.after(60)
    assert cover_of(cluster, "owned") == (None, None)
    messages = [
        text
        for name, reason, text in cluster.events
        if (name, reason) == ("owned", event_reasons.BOOKING_ENDED)
    ]
    assert len(messages) == 1
    assert messages[0] == (
        "The booking b-1 that covered this pod was over at 2026-11-23 10:00 UTC."
        " It stays, but must leave when a booked pod needs its GPUs."
    )


def test_a_pod_that_stays_can_be_evicted_at_once_for_the_next_booked_pod() -> None:
    cluster = FakeCluster(terms=EvictionSettings())
    cluster.add_node()
    cluster.book(end=EPOCH + HOUR)
    cluster.create(a_pod("owned").of("alice").asks(1), OWNED)
    cluster.bind("owned", 0)
    for index in (1, 2, 3):
        cluster.opportunist(f"b{index}", index, minutes=600)
    cluster.reconcile()
    cluster.book("b-3", user="carol", start=EPOCH + HOUR, end=EPOCH + 48 * HOUR)
    cluster.waiting("hers", user="carol")
    cluster.after(3600)
    assert cluster.kept("hers").victims == ("uid-owned",)
    cluster.reconcile()
    assert cluster.evicted() == ["owned"]


def test_a_bare_pod_can_be_deleted_for_good() -> None:
    cluster = ended(EvictionSettings(end_action_without_controller="delete"))
    assert decided(cluster) == (("uid-bare",), "never")
    why = cluster.evictor.why["bare"]
    assert why.back == "never"
    assert why.message.endswith("It does not come back.")


@pytest.mark.parametrize("later", ["demote", "recreate-without-gpu"])
def test_a_decided_end_is_carried_out_even_when_the_settings_change_afterwards(later: EndAction) -> None:
    cluster = FakeCluster(terms=EvictionSettings(end_action_without_controller="delete"))
    cluster.add_node()
    cluster.book(end=EPOCH + HOUR)
    cluster.waiting("a")
    cluster.bind("a", 0)
    cluster.reconcile()
    cluster.after(3600)
    assert decided(cluster) == (("uid-a",), "never")
    assert cluster.ended() == []
    cluster.terms = replace(cluster.terms, end_action_without_controller=later)
    cluster.restart()
    cluster.reconcile(2)
    assert cluster.ended() == ["a"]
    assert cluster.evictor.why["a"].back == "never"


def test_pods_come_back_without_a_gpu_when_the_booking_does_not_say_how() -> None:
    cluster = FakeCluster(terms=EvictionSettings(end_action_without_controller="delete"))
    cluster.add_node()
    cluster.book(end=EPOCH + HOUR)
    cluster.waiting("a")
    cluster.bind("a", 0)
    cluster.reconcile()
    cluster.kube.patch(BOOKINGS, "b-1", {"status": {"ending": ["uid-a"]}}, subresource="status")
    cluster.after(3600)
    cluster.reconcile()
    assert cluster.evictor.why["a"].back == "without-gpu"


def test_the_event_of_a_waiting_pod_says_that_it_keeps_waiting() -> None:
    cluster = FakeCluster()
    cluster.add_node(unschedulable=True)
    cluster.book(end=EPOCH + HOUR)
    cluster.waiting("a")
    cluster.reconcile()
    cluster.after(3600)
    cluster.reconcile(2)
    messages = [text for _, reason, text in cluster.events if reason == event_reasons.BOOKING_ENDED]
    assert [text.partition("UTC. ")[2] for text in messages] == ["It goes on waiting, without a booking."]


def test_no_pod_becomes_opportunistic_when_the_end_was_just_moved() -> None:
    cluster = FakeCluster()
    cluster.add_node()
    cluster.book(end=EPOCH + HOUR)
    cluster.create(a_pod("owned").of("alice").asks(1), OWNED)
    cluster.bind("owned", 0)
    cluster.reconcile()
    cluster.clock.advance(3600)
    cluster.renew()
    cluster.sync()
    cluster.end_booking(at=EPOCH + 2 * HOUR)
    cluster.reclaimer.reconcile()  # the cache still shows the old end
    cluster.reconcile(2)
    assert decided(cluster) == (None, None)
    assert cover_of(cluster, "owned") == ("b-1", "2026-11-23T11:00:00Z")


def test_a_pod_that_the_next_booking_covers_at_once_gets_no_event_about_a_lost_booking() -> None:
    cluster = FakeCluster()
    cluster.add_node()
    cluster.book(end=EPOCH + HOUR)
    cluster.book("b-2", start=EPOCH + HOUR, end=EPOCH + 2 * HOUR)
    cluster.create(a_pod("owned").of("alice").asks(1), OWNED)
    cluster.bind("owned", 0)
    cluster.reconcile()
    cluster.after(3600)
    cluster.reconcile(2)
    assert cover_of(cluster, "owned")[0] == "b-2"
    assert event_reasons.BOOKING_ENDED not in cluster.reasons("owned")
