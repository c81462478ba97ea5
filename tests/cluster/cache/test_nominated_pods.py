"""A nominated pod needs its booking's model on its node while the booking runs."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from cluster.cache import ClusterCache
from cluster.fake.clock import FakeClock
from cluster.kube.resources import BOOKINGS, NODES, PODS
from tests.fakes.objects import A100, A6000, EPOCH, PodBuilder, a100, a6000, a_booking, a_node, a_pod

HOUR = timedelta(hours=1)


def by_name(cache: ClusterCache) -> list[frozenset[str]]:
    ((view, _),) = cache.snapshot(["n0"])
    return [one.selector.models for one in view.nominated]


def of_all(cache: ClusterCache) -> list[frozenset[str]]:
    return [one.selector.models for one in cache.node_snapshots().views["n0"].nominated]


every_reader = pytest.mark.parametrize("read", [by_name, of_all], ids=["some nodes", "all nodes"])
Read = Callable[[ClusterCache], list[frozenset[str]]]


class Nominated:
    """A cache with a node of two models and a pod of alice's that is nominated for it."""

    def __init__(self, pod: PodBuilder | None = None) -> None:
        self.clock = FakeClock(EPOCH)
        self.cache = ClusterCache(self.clock)
        self.cache.of(NODES).upsert(a_node("n0", a100(0), a6000(1)))
        self.pod = pod or a_pod().of("alice").asks(1).nominated_to("n0")
        self.cache.of(PODS).upsert(self.pod.obj)

    def book(self, model: str = A100, *, user: str = "alice", start: int = 0, end: int = 2) -> None:
        times = {"start": EPOCH + start * HOUR, "end": EPOCH + end * HOUR}
        self.cache.of(BOOKINGS).upsert(a_booking(user=user, model=model, **times))


@every_reader
def test_without_a_booking_the_pod_may_get_any_model(read: Read) -> None:
    assert read(Nominated().cache) == [frozenset()]


@every_reader
def test_the_pod_needs_its_booking_s_model_from_start_to_end_without_any_event(read: Read) -> None:
    made = Nominated()
    made.book(start=1, end=2)
    found = []
    for _ in range(3):
        found += read(made.cache)
        made.clock.advance(3600)
    assert found == [frozenset(), frozenset({A100}), frozenset()]


@every_reader
def test_as_long_as_nothing_changes_the_answer_and_the_node_stay_the_same(read: Read) -> None:
    """A caller that caches its result for a node need not compute it again."""
    made = Nominated()
    made.book()
    assert [read(made.cache) for _ in "abc"] == [[frozenset({A100})]] * 3
    views = [made.cache.node_snapshots().views["n0"] for _ in "ab"]
    assert views[0] is views[1]


@every_reader
@pytest.mark.parametrize(
    ("pod", "models"),
    [
        pytest.param(a_pod().of("bob").asks(1), frozenset(), id="of another user"),
        pytest.param(a_pod().asks(1), frozenset(), id="no user"),
        pytest.param(a_pod().of("alice").asks(2), frozenset(), id="larger than the booking"),
        pytest.param(a_pod().of("alice").asks(1).wants(A6000), frozenset({A6000}), id="of another model"),
    ],
)
def test_a_pod_that_the_booking_does_not_cover_needs_the_models_it_requests(
    read: Read, pod: PodBuilder, models: frozenset[str]
) -> None:
    made = Nominated(pod.nominated_to("n0"))
    made.book()
    assert read(made.cache) == [models]


@every_reader
def test_a_pod_that_is_nominated_again_needs_its_booking_s_present_model(read: Read) -> None:
    made = Nominated()
    made.book()
    assert read(made.cache) == [frozenset({A100})]
    made.cache.of(PODS).upsert(a_pod().of("alice").asks(1).at(2).obj)
    assert read(made.cache) == []
    made.cache.of(BOOKINGS).remove(a_booking())
    made.cache.of(PODS).upsert(made.pod.at(3).obj)
    assert read(made.cache) == [frozenset()]
