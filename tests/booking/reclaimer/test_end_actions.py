"""What happens to a pod at the end of its booking, by policy: it ends and comes back, is gone, or stays."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from booking.eviction_settings import EndAction, EvictionSettings
from booking.reclaimer.ending.booking_ends import MIRROR_STALE_AFTER
from cluster import names
from cluster.kube.resources import BOOKINGS
from cluster.objects.bookings import Booking
from tests.booking.reclaimer.scene import Scene
from tests.fakes.objects import EPOCH, a_pod

HOUR = timedelta(hours=1)
OWNED: dict[str, Any] = {
    "metadata": {"ownerReferences": [{"kind": "ReplicaSet", "name": "r", "uid": "o", "controller": True}]}
}


def ended(terms: EvictionSettings, *, minutes: float = 0) -> Scene:
    """Alice's bare pod and one of a controller ran on her booking of two, which has just ended."""
    scene = Scene(terms=terms)
    scene.add_node()
    scene.book(count=2, end=EPOCH + HOUR)
    scene.create(a_pod("bare").of("alice").asks(1))
    scene.create(a_pod("owned").of("alice").asks(1), OWNED)
    scene.bind("bare", 0)
    scene.bind("owned", 1)
    scene.reconcile()
    scene.after(3600 + 60 * minutes)
    scene.reconcile(2)
    return scene


def decided(scene: Scene, name: str = "b-1") -> tuple[tuple[str, ...] | None, str | None]:
    booking: Booking = scene.kube.get(BOOKINGS, name)
    return booking.status.ending, booking.status.back


def cover_of(scene: Scene, name: str) -> tuple[str | None, str | None]:
    return scene.annotation(name, names.BOOKING), scene.annotation(name, names.TERMINATE_AT)


def test_by_default_a_bare_pod_comes_back_without_a_gpu_and_a_controllers_stays() -> None:
    scene = ended(EvictionSettings())
    assert decided(scene) == (("uid-bare",), "without-gpu")
    assert scene.ended() == ["bare"]
    assert scene.leaving.why["bare"].back == "without-gpu"
    assert scene.exists("owned")


def test_one_event_says_what_a_pod_that_stays_is_from_now_on() -> None:
    scene = ended(EvictionSettings())
    scene.restart()
    scene.after(60)
    assert cover_of(scene, "owned") == (None, None)
    said = [text for name, reason, text in scene.events if (name, reason) == ("owned", names.BOOKING_ENDED)]
    assert len(said) == 1
    assert said[0] == (
        "The booking b-1 that covered this pod was over at 2026-11-23 10:00 UTC."
        " It stays, but must leave when a booked pod needs its GPUs."
    )


def test_a_pod_that_stays_is_evicted_when_a_booked_pod_needs_its_gpu_and_not_before() -> None:
    scene = ended(EvictionSettings())
    scene.after(600)
    assert scene.evicted() == []
    for index in (0, 2, 3):
        scene.opportunist(f"b{index}", index, minutes=600)
    scene.book("b-2", user="bob", start=EPOCH, end=EPOCH + 48 * HOUR)
    scene.waiting("hers", user="carol")
    scene.book("b-3", user="carol", start=EPOCH, end=EPOCH + 48 * HOUR)
    scene.reconcile(2)
    assert scene.evicted() == ["owned"]


def test_nobody_is_spared_for_a_pod_that_stays_and_a_booked_pod_need_not_wait_for_it() -> None:
    scene = Scene(terms=EvictionSettings())
    scene.add_node()
    scene.book(end=EPOCH + HOUR)
    scene.create(a_pod("owned").of("alice").asks(1), OWNED)
    scene.bind("owned", 0)
    for index in (1, 2, 3):
        scene.opportunist(f"b{index}", index, minutes=600)
    scene.reconcile()
    scene.book("b-3", user="carol", start=EPOCH + HOUR, end=EPOCH + 48 * HOUR)
    scene.waiting("hers", user="carol")
    scene.after(3600)
    assert scene.kept("hers").victims == ("uid-owned",)
    scene.reconcile()
    assert scene.evicted() == ["owned"]


@pytest.mark.parametrize("action", ["recreate-without-gpu", "delete"])
def test_a_controllers_pod_may_be_ended_too_and_is_left_to_its_controller(action: EndAction) -> None:
    scene = ended(EvictionSettings(end_action_with_controller=action))
    assert decided(scene)[0] == ("uid-bare", "uid-owned")
    assert sorted(scene.ended()) == ["bare", "owned"]
    assert "Its controller may make another pod" in scene.leaving.why["owned"].message


def test_a_bare_pod_may_be_gone_for_good() -> None:
    scene = ended(EvictionSettings(end_action_without_controller="delete"))
    assert decided(scene) == (("uid-bare",), "never")
    why = scene.leaving.why["bare"]
    assert why.back == "never"
    assert why.message.endswith("It does not come back.")


def test_bare_pods_may_stay_as_well() -> None:
    scene = ended(EvictionSettings(end_action_without_controller="demote"))
    assert decided(scene)[0] == ()
    assert scene.ended() == []
    assert cover_of(scene, "bare") == (None, None)
    assert scene.reasons("bare").count(names.BOOKING_ENDED) == 1


@pytest.mark.parametrize("later", ["demote", "recreate-without-gpu"])
def test_what_was_decided_is_done_whatever_the_settings_say_by_then(later: EndAction) -> None:
    scene = Scene(terms=EvictionSettings(end_action_without_controller="delete"))
    scene.add_node()
    scene.book(end=EPOCH + HOUR)
    scene.waiting("a")
    scene.bind("a", 0)
    scene.reconcile()
    scene.after(3600)
    assert decided(scene) == (("uid-a",), "never")
    assert scene.ended() == []
    scene.terms = replace(scene.terms, end_action_without_controller=later)
    scene.restart()
    scene.reconcile(2)
    assert scene.ended() == ["a"]
    assert scene.leaving.why["a"].back == "never"


def test_a_booking_that_says_nothing_about_coming_back_brings_its_pods_back() -> None:
    scene = Scene(terms=EvictionSettings(end_action_without_controller="delete"))
    scene.add_node()
    scene.book(end=EPOCH + HOUR)
    scene.waiting("a")
    scene.bind("a", 0)
    scene.reconcile()
    scene.kube.patch(BOOKINGS, "b-1", {"status": {"ending": ["uid-a"]}}, subresource="status")
    scene.after(3600)
    scene.reconcile()
    assert scene.leaving.why["a"].back == "without-gpu"


def test_the_event_of_a_waiting_pod_says_that_it_goes_on_waiting() -> None:
    scene = Scene()
    scene.add_node(unschedulable=True)
    scene.book(end=EPOCH + HOUR)
    scene.waiting("a")
    scene.reconcile()
    scene.after(3600)
    scene.reconcile(2)
    said = [text for _, reason, text in scene.events if reason == names.BOOKING_ENDED]
    assert [text.partition("UTC. ")[2] for text in said] == ["It goes on waiting, without a booking."]


def test_nobody_is_demoted_while_the_mirror_is_stale() -> None:
    scene = Scene()
    scene.add_node()
    scene.book(end=EPOCH + HOUR)
    scene.create(a_pod("owned").of("alice").asks(1), OWNED)
    scene.bind("owned", 0)
    scene.reconcile()
    scene.silence_mirror()
    scene.after(3600)
    scene.reconcile(3)
    assert decided(scene) == (None, None)
    assert cover_of(scene, "owned")[0] == "b-1"
    assert names.BOOKING_ENDED not in scene.reasons("owned")


def test_an_end_that_was_moved_a_moment_ago_demotes_nobody() -> None:
    scene = Scene()
    scene.add_node()
    scene.book(end=EPOCH + HOUR)
    scene.create(a_pod("owned").of("alice").asks(1), OWNED)
    scene.bind("owned", 0)
    scene.reconcile()
    scene.clock.advance(3600)
    scene.renew()
    scene.sync()
    scene.end_booking(at=EPOCH + 2 * HOUR)
    scene.reclaimer.reconcile()  # the cache still shows the old end
    scene.reconcile(2)
    assert decided(scene) == (None, None)
    assert cover_of(scene, "owned") == ("b-1", "2026-11-23T11:00:00Z")


def test_a_pod_that_the_next_booking_covers_at_once_gets_no_event_of_a_lost_one() -> None:
    scene = Scene()
    scene.add_node()
    scene.book(end=EPOCH + HOUR)
    scene.book("b-2", start=EPOCH + HOUR, end=EPOCH + 2 * HOUR)
    scene.create(a_pod("owned").of("alice").asks(1), OWNED)
    scene.bind("owned", 0)
    scene.reconcile()
    scene.after(3600)
    scene.reconcile(2)
    assert cover_of(scene, "owned")[0] == "b-2"
    assert names.BOOKING_ENDED not in scene.reasons("owned")


def test_a_pod_whose_booking_ends_while_the_mirror_is_stale_is_ended_when_it_is_back() -> None:
    scene = Scene()
    scene.add_node()
    scene.book(count=2, end=EPOCH + HOUR)
    scene.create(a_pod("bare").of("alice").asks(1))
    scene.create(a_pod("owned").of("alice").asks(1), OWNED)
    scene.bind("bare", 0)
    scene.bind("owned", 1)
    scene.reconcile()
    scene.silence_mirror()
    scene.after(3600 + MIRROR_STALE_AFTER)
    assert scene.ended() == []
    scene.hear_mirror()
    scene.reconcile(3)
    assert scene.ended() == ["bare"]
    assert cover_of(scene, "owned") == (None, None)
