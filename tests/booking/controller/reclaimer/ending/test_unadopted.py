"""A running pod that its owner's booking cannot cover on its node stays, and loses nothing by it."""

from datetime import timedelta

import pytest

from booking.controller.reclaimer.ending.cover_annotations import not_covered
from cluster import event_reasons, names
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH, a100

HOUR = timedelta(hours=1)


@pytest.fixture
def cluster() -> FakeCluster:
    """Alice's pod runs on n0, of which both GPUs are planned for bob in an hour; hers has begun, for n1."""
    cluster = FakeCluster()
    cluster.add_node("n0", a100(0), a100(1))
    cluster.add_node("n1", a100(0, "n1"))
    cluster.waiting("a")
    cluster.bind("a", 0)
    places = [{"node": "n1", "count": 1}]
    cluster.book("b-1", places=places, end=EPOCH + 9 * HOUR)
    places = [{"node": "n0", "count": 2}]
    cluster.book(
        "b-2",
        user="bob",
        count=2,
        topology="single-node",
        places=places,
        start=EPOCH + HOUR,
        end=EPOCH + 20 * HOUR,
    )
    cluster.reconcile(3)
    return cluster


def test_an_unadopted_pod_gets_one_event_and_carries_no_booking(cluster: FakeCluster) -> None:
    assert cluster.annotation("a", names.BOOKING) is None
    messages = [
        text for name, reason, text in cluster.events if (name, reason) == ("a", event_reasons.NOT_ADOPTED)
    ]
    assert messages == [not_covered(cluster.pod("a"), "b-1")]
    assert "b-1" in messages[0]
    assert "n0" in messages[0]


@pytest.mark.parametrize(("value", "back"), [("delete", "never"), ("recreate-without-gpu", "without-gpu")])
def test_an_evicted_unadopted_pod_comes_back_as_its_annotation_says(
    cluster: FakeCluster, value: str, back: str
) -> None:
    cluster.annotate("a", names.ON_EVICT, value)
    cluster.after(3600)
    cluster.waiting("b", 2, user="bob")
    cluster.reconcile()
    cluster.after(3)
    cluster.reconcile()
    assert cluster.evictor.why["a"].back == back


def test_an_unadopted_pod_stays_when_the_earlier_booking_that_covered_it_ends(cluster: FakeCluster) -> None:
    cluster.annotate("a", names.BOOKING, "b-0")
    cluster.book("b-0", start=EPOCH - HOUR, end=EPOCH + timedelta(minutes=5))
    cluster.reconcile(3)
    cluster.after(600)
    cluster.reconcile(3)
    assert cluster.ended() == []
