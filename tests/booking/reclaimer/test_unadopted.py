"""A running pod that its owner's booking does not cover where it runs stays, and loses nothing by it."""

from datetime import timedelta

import pytest

from booking.reclaimer.ending.cover_annotations import not_covered
from cluster import names
from tests.booking.reclaimer.scene import Scene
from tests.fakes.objects import EPOCH, a100

HOUR = timedelta(hours=1)


@pytest.fixture
def scene() -> Scene:
    """Alice's pod runs on n0, of which bob is promised both GPUs in an hour; hers has begun, for n1."""
    scene = Scene()
    scene.add_node("n0", a100(0), a100(1))
    scene.add_node("n1", a100(0, "n1"))
    scene.waiting("a")
    scene.bind("a", 0)
    places = [{"node": "n1", "count": 1}]
    scene.book("b-1", places=places, end=EPOCH + 9 * HOUR)
    places = [{"node": "n0", "count": 2}]
    scene.book(
        "b-2",
        user="bob",
        count=2,
        topology="single-node",
        places=places,
        start=EPOCH + HOUR,
        end=EPOCH + 20 * HOUR,
    )
    scene.reconcile(3)
    return scene


def test_it_gets_one_event_and_carries_no_booking(scene: Scene) -> None:
    assert scene.annotation("a", names.BOOKING) is None
    messages = [text for name, reason, text in scene.events if (name, reason) == ("a", names.NOT_ADOPTED)]
    assert messages == [not_covered(scene.pod("a"), "b-1")]
    assert "b-1" in messages[0]
    assert "n0" in messages[0]


def test_when_a_booked_pod_needs_its_gpu_it_comes_back_with_its_request(scene: Scene) -> None:
    scene.after(3600)
    scene.waiting("b", 2, user="bob")
    scene.reconcile()
    scene.after(3)
    scene.reconcile()
    assert scene.evicted() == ["a"]
    assert scene.leaving.why["a"].back == "as-it-was"


@pytest.mark.parametrize(("value", "back"), [("delete", "never"), ("recreate-without-gpu", "without-gpu")])
def test_it_comes_back_as_its_annotation_says(scene: Scene, value: str, back: str) -> None:
    scene.annotate("a", names.ON_EVICT, value)
    scene.after(3600)
    scene.waiting("b", 2, user="bob")
    scene.reconcile()
    scene.after(3)
    scene.reconcile()
    assert scene.leaving.why["a"].back == back


def test_it_does_not_end_with_the_booking(scene: Scene) -> None:
    scene.after(9 * 3600)
    scene.reconcile(3)
    assert scene.ended() == []


def test_it_stays_when_the_booking_before_that_covered_it_ends(scene: Scene) -> None:
    scene.annotate("a", names.BOOKING, "b-0")
    scene.book("b-0", start=EPOCH - HOUR, end=EPOCH + timedelta(minutes=5))
    scene.reconcile(3)
    scene.after(600)
    scene.reconcile(3)
    assert scene.ended() == []
