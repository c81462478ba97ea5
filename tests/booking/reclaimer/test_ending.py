"""Pods end with their booking: once, never in doubt, and nobody who is covered by another (law L6)."""

from datetime import timedelta

import pytest

from booking.reclaimer.ending.booking_ends import MIRROR_STALE_AFTER
from booking.reclaimer.evictor import DECIDED_WITHIN
from cluster import names
from cluster.kube.errors import Request, Unreachable
from cluster.kube.resources import BOOKINGS
from tests.booking.reclaimer.scene import Scene
from tests.fakes.objects import EPOCH, a_pod

HOUR = timedelta(hours=1)


@pytest.fixture
def scene() -> Scene:
    """Alice's pod runs on her booking, which ends in an hour; bob's pod runs without one."""
    scene = Scene()
    scene.add_node()
    scene.book(end=EPOCH + HOUR)
    scene.waiting("a")
    scene.bind("a", 0)
    scene.opportunist("b", 1)
    scene.reconcile()
    return scene


def ending(scene: Scene, name: str = "b-1") -> list[str] | None:
    found = scene.kube.get(BOOKINGS, name).status.ending
    return None if found is None else list(found)


def test_nothing_ends_before_the_end(scene: Scene) -> None:
    scene.after(3599)
    assert ending(scene) is None
    assert scene.ended() == []


def test_the_covered_pod_ends_at_the_end_and_nobody_else(scene: Scene) -> None:
    scene.after(3600)
    assert ending(scene) == ["uid-a"]
    scene.reconcile()
    assert scene.ended() == ["a"]
    assert scene.exists("b")


def test_a_booking_that_is_released_ends_its_pod(scene: Scene) -> None:
    scene.clock.advance(60)
    scene.renew()
    scene.end_booking()
    scene.reconcile(2)
    assert scene.ended() == ["a"]


def test_a_pod_that_was_never_bound_goes_on_waiting_without_a_booking() -> None:
    scene = Scene()
    scene.add_node(unschedulable=True)
    scene.book(end=EPOCH + HOUR)
    scene.waiting("a")
    scene.after(3600)
    scene.reconcile(2)
    assert ending(scene) == []
    assert scene.ended() == []
    assert scene.exists("a")


def test_nothing_is_decided_while_our_watch_has_not_shown_yet_that_the_covered_pod_is_bound() -> None:
    scene = Scene()
    scene.add_node()
    scene.book(end=EPOCH + HOUR)
    scene.waiting("a")
    scene.clock.advance(3600)
    scene.renew()
    scene.sync()
    scene.bind("a", 0)
    scene.reclaimer.reconcile()  # the cache still shows that it waits
    assert ending(scene) is None
    scene.after(1)
    assert ending(scene) == ["uid-a"]
    scene.reconcile()
    assert scene.ended() == ["a"]


def test_a_pod_is_ended_once_and_followed_while_it_terminates(scene: Scene) -> None:
    scene.after(3600)
    scene.reconcile(3)
    scene.after(5)
    assert scene.ended() == ["a"]


def test_the_pods_that_end_are_chosen_once(scene: Scene) -> None:
    scene.after(3600)
    assert ending(scene) == ["uid-a"]
    raw = scene.kube.raw(BOOKINGS, "b-1")
    raw["status"]["ending"] = []
    scene.kube.put(BOOKINGS, raw)
    scene.after(10)
    assert scene.ended() == []


def test_a_pod_that_another_booking_covers_by_now_goes_on(scene: Scene) -> None:
    scene.book("b-2", start=EPOCH + HOUR, end=EPOCH + 2 * HOUR)
    scene.after(3600)
    scene.reconcile(2)
    assert scene.ended() == []
    assert scene.annotation("a", names.BOOKING) == "b-2"


def test_a_pod_that_was_to_end_is_spared_when_a_booking_covers_it_at_the_last_moment(scene: Scene) -> None:
    scene.after(3600)
    scene.book("b-2", start=EPOCH + HOUR, end=EPOCH + 2 * HOUR)
    scene.reconcile(2)
    assert ending(scene) == ["uid-a"]
    assert scene.ended() == []


def test_a_pod_that_was_created_after_the_end_does_not_end(scene: Scene) -> None:
    scene.clock.advance(3600)
    scene.gone("a")
    later = {"metadata": {"creationTimestamp": "2026-11-23T10:00:00Z"}}
    scene.create(a_pod("new").of("alice").asks(1), later)
    scene.renew()
    scene.reconcile(2)
    assert ending(scene) == []


def test_an_end_that_was_moved_a_moment_ago_ends_nobody(scene: Scene) -> None:
    scene.clock.advance(3600)
    scene.renew()
    scene.sync()
    scene.end_booking(at=EPOCH + 2 * HOUR)
    scene.reclaimer.reconcile()
    assert ending(scene) is None
    scene.reconcile(2)
    assert scene.ended() == []


def test_an_end_that_is_moved_after_the_decision_spares_the_pod(scene: Scene) -> None:
    scene.after(3600)
    scene.end_booking(at=EPOCH + 2 * HOUR)
    scene.reclaimer.reconcile()  # the cache still shows the old end
    scene.reconcile(2)
    assert scene.ended() == []


def test_nothing_is_decided_or_ended_while_the_mirror_is_stale(scene: Scene) -> None:
    scene.silence_mirror()
    scene.after(3600)
    scene.reconcile(3)
    assert ending(scene) is None


def test_what_was_decided_waits_for_the_mirror(scene: Scene) -> None:
    scene.after(3600)
    assert ending(scene) == ["uid-a"]
    scene.silence_mirror()
    scene.clock.advance(MIRROR_STALE_AFTER)
    scene.renew()
    scene.reconcile(2)
    assert scene.ended() == []
    assert scene.leaving.wanted == frozenset()


def test_evictions_go_on_while_the_mirror_is_stale() -> None:
    scene = Scene()
    scene.add_node()
    scene.fill()
    scene.book()
    scene.waiting("a")
    scene.silence_mirror()
    scene.after(600)
    scene.reconcile(2)
    assert scene.evicted() == ["b3"]


def test_a_booking_that_is_gone_from_the_api_server_ends_nobody(scene: Scene) -> None:
    scene.clock.advance(3600)
    scene.renew()
    scene.sync()
    scene.kube.delete(BOOKINGS, "b-1")
    scene.reclaimer.reconcile()
    assert scene.ended() == []


def test_an_end_that_fails_is_tried_again(scene: Scene) -> None:
    scene.after(3600)
    scene.leaving.failing.append(Unreachable(Request("DELETE", "/"), "connection refused"))
    scene.reconcile()
    assert scene.ended() == []
    scene.after(1)
    assert scene.ended() == ["a"]


def test_a_booking_of_one_gpu_ends_the_one_pod_that_it_covered(scene: Scene) -> None:
    scene.create(a_pod("early").of("alice").asks(1).on("n0", {"main": ("GPU-n0-2",)}), older(hours=5))
    scene.reconcile()
    assert scene.annotation("a", names.BOOKING) == "b-1"
    assert scene.annotation("early", names.BOOKING) is None
    scene.after(3600)
    assert ending(scene) == ["uid-a"]


def test_a_process_that_starts_again_between_the_steps_goes_on(scene: Scene) -> None:
    scene.restart()
    scene.after(3600)
    scene.restart()
    scene.reconcile()
    scene.restart()
    scene.reconcile(2)
    assert scene.ended() == ["a"]


def test_a_reclaimer_that_comes_days_later_still_ends_the_pod(scene: Scene) -> None:
    scene.leads = False
    scene.after(3 * 86400)
    assert ending(scene) is None
    scene.leads = True
    scene.reconcile(2)
    assert scene.ended() == ["a"]


def older(*, hours: int) -> dict[str, object]:
    at = EPOCH - timedelta(hours=hours)
    return {"metadata": {"creationTimestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ")}}


def test_a_controller_that_stalled_between_decision_and_end_checks_again_first(scene: Scene) -> None:
    def booked_meanwhile() -> None:
        scene.clock.advance(DECIDED_WITHIN + 0.1)
        scene.book("b-2")

    scene.after(3600)
    scene.leaving.meanwhile = booked_meanwhile
    scene.reconcile()
    scene.leaving.meanwhile = lambda: None
    scene.renew()
    scene.reconcile(3)
    assert scene.ended() == []


def test_an_end_that_took_long_to_prepare_is_checked_again_and_done(scene: Scene) -> None:
    scene.after(3600)
    scene.leaving.meanwhile = lambda: scene.clock.advance(DECIDED_WITHIN + 0.1)
    scene.reconcile()
    assert scene.ended() == ["a"]
