"""What people read on a pod is true: which booking covers it, and when it must end."""

from datetime import timedelta

import pytest

from cluster import names
from cluster.kube.errors import Request, Unreachable
from tests.booking.reclaimer.scene import Scene
from tests.fakes.objects import EPOCH, a_pod


@pytest.fixture
def scene() -> Scene:
    """Alice's pod runs; she has no booking yet."""
    scene = Scene()
    scene.add_node()
    scene.waiting("a")
    scene.bind("a", 0)
    scene.reconcile()
    return scene


def cover_of(scene: Scene, name: str = "a") -> tuple[str | None, str | None]:
    return scene.annotation(name, names.BOOKING), scene.annotation(name, names.TERMINATE_AT)


def patches(scene: Scene) -> int:
    return sum(call.verb == "PATCH" for call in scene.kube.calls)


def test_a_pod_without_cover_says_nothing_and_is_not_written(scene: Scene) -> None:
    assert cover_of(scene) == (None, None)
    assert patches(scene) == 0


def test_a_running_pod_is_adopted_by_one_write(scene: Scene) -> None:
    scene.book()
    scene.reconcile(3)
    assert cover_of(scene) == ("b-1", "2026-11-25T09:00:00Z")
    assert patches(scene) == 1


def test_a_prolonged_booking_moves_the_end_and_touches_nothing_else(scene: Scene) -> None:
    scene.book()
    scene.reconcile(2)
    before = scene.pod("a")
    scene.end_booking(at=EPOCH + timedelta(days=3))
    scene.reconcile(2)
    after = scene.pod("a")
    assert cover_of(scene) == ("b-1", "2026-11-26T09:00:00Z")
    assert (after.spec, after.status) == (before.spec, before.status)


def test_annotations_that_say_the_same_in_other_words_are_left_alone(scene: Scene) -> None:
    scene.annotate("a", names.BOOKING, "b-1")
    scene.annotate("a", names.TERMINATE_AT, "2026-11-25T10:00:00.5+01:00")
    scene.book()
    scene.reconcile(2)
    assert patches(scene) == 0


@pytest.mark.parametrize("text", ["1900-01-01T00:00:00Z", "tomorrow", ""])
def test_a_wrong_end_is_put_right(scene: Scene, text: str) -> None:
    scene.annotate("a", names.BOOKING, "b-1")
    scene.annotate("a", names.TERMINATE_AT, text)
    scene.book()
    scene.reconcile(2)
    assert cover_of(scene) == ("b-1", "2026-11-25T09:00:00Z")


def test_a_forged_annotation_is_removed(scene: Scene) -> None:
    scene.annotate("a", names.BOOKING, "b-of-somebody")
    scene.annotate("a", names.TERMINATE_AT, "2099-01-01T00:00:00Z")
    scene.reconcile(2)
    assert cover_of(scene) == (None, None)


def test_the_cover_annotations_stay_until_the_pods_that_end_are_chosen(scene: Scene) -> None:
    scene.book(end=EPOCH + timedelta(hours=1))
    scene.reconcile()
    scene.silence_mirror()
    scene.after(3600)
    scene.reconcile(2)
    assert scene.annotation("a", names.BOOKING) == "b-1"


def test_a_pod_that_does_not_end_with_its_booking_loses_the_cover_annotations(scene: Scene) -> None:
    scene.book(end=EPOCH + timedelta(hours=1))
    scene.reconcile()
    scene.create(a_pod("forger").of("alice").asks(1).with_annotation(names.BOOKING, "b-1"))
    scene.after(3600)
    scene.reconcile(2)
    assert scene.ended() == ["a"]
    assert scene.annotation("forger", names.BOOKING) is None


def test_a_write_that_fails_is_tried_again_and_keeps_no_other_pod_waiting(scene: Scene) -> None:
    scene.book(count=2)
    scene.waiting("a2")
    scene.kube.fail("PATCH", Unreachable(Request("PATCH", "/"), "connection refused"))
    scene.reconcile()
    assert {cover_of(scene)[0], cover_of(scene, "a2")[0]} == {"b-1", None}
    scene.after(1)
    assert {cover_of(scene)[0], cover_of(scene, "a2")[0]} == {"b-1"}


def test_a_terminating_pod_is_not_written(scene: Scene) -> None:
    scene.create(a_pod("t").of("alice").asks(1).on("n0", {"main": ("GPU-n0-1",)}).terminating())
    scene.book()
    scene.reconcile(2)
    assert cover_of(scene, "t") == (None, None)
