"""What the cache holds after any event, and which pods a booking covers in it."""

import threading
from datetime import timedelta

import msgspec
import pytest
from structlog.testing import capture_logs

from cluster import names
from cluster.cache import ClusterCache
from cluster.cache.pods import RECLAIMER_ANNOTATIONS
from cluster.fake.clock import FakeClock
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod
from tests.fakes.objects import A6000, EPOCH, PodBuilder, a100, a6000, a_booking, a_lease, a_node, a_pod

HOUR = timedelta(hours=1)
NOW = EPOCH + HOUR


@pytest.fixture
def cache() -> ClusterCache:
    made = ClusterCache(FakeClock(EPOCH))
    made.of(NODES).upsert(a_node("n0", a100(0), a100(1), a6000(2)))
    made.of(BOOKINGS).upsert(a_booking())
    return made


def of_alice(name: str = "p", *, minutes: int = 0) -> PodBuilder:
    return a_pod(name).of("alice").asks(1).created(EPOCH + timedelta(minutes=minutes))


def covered(cache: ClusterCache) -> set[str]:
    return {uid.removeprefix("uid-") for uid in cache.cover(NOW)}


def is_covered(cache: ClusterCache, pod: PodBuilder | Pod) -> bool:
    return cache.cover_of(pod.obj if isinstance(pod, PodBuilder) else pod, NOW) is not None


# --- cover -------------------------------------------------------------------------------------------


def test_a_pod_that_was_not_seen_yet_is_covered_along_with_those_that_were(cache: ClusterCache) -> None:
    assert is_covered(cache, of_alice())

    cache.of(PODS).upsert(of_alice("older", minutes=-1).obj)

    assert not is_covered(cache, of_alice())
    assert covered(cache) == {"older"}


def test_cover_of_one_pod_equals_its_cover_among_all_pods(cache: ClusterCache) -> None:
    cache.of(BOOKINGS).upsert(a_booking("b-2", count=2, model=A6000))
    cache.of(BOOKINGS).upsert(a_booking("b-3", user="bob", count=1))
    pods = [of_alice(f"a{n}", minutes=n) for n in range(4)] + [a_pod("b").of("bob").asks(1)]
    for pod in pods:
        cache.of(PODS).upsert(pod.obj)

    together = cache.cover(NOW)

    assert len(together) == 4
    for pod in pods:
        assert cache.cover_of(pod.obj, NOW) == together.get(pod.obj.metadata.uid)


def test_a_pod_without_an_owner_does_not_wait_for_the_cache(cache: ClusterCache) -> None:
    found: list[Booking | None] = []
    asking = threading.Thread(target=lambda: found.append(cache.cover_of(a_pod().asks(1).obj, NOW)))
    with cache.locked():
        asking.start()
        asking.join(60)
    assert found == [None]


def test_cover_begins_and_ends_with_the_booking_without_any_event(cache: ClusterCache) -> None:
    cache.of(PODS).upsert(of_alice().obj)

    assert cache.cover_of(of_alice().obj, EPOCH - HOUR) is None
    assert cache.cover(EPOCH - HOUR) == {}
    assert cache.cover_of(of_alice().obj, EPOCH) is not None
    assert cache.cover_of(of_alice().obj, EPOCH + timedelta(days=2)) is None


def test_a_cover_annotation_that_is_written_later_counts(cache: ClusterCache) -> None:
    older, younger = of_alice("older"), of_alice("younger", minutes=1)
    cache.of(PODS).upsert(older.obj)
    cache.of(PODS).upsert(younger.obj)
    assert covered(cache) == {"older"}

    cache.of(PODS).upsert(younger.with_annotation(names.BOOKING, "b-1").at(2).obj)

    assert covered(cache) == {"younger"}


# --- bookings ----------------------------------------------------------------------------------------


def in_version(booking: Booking, version: int) -> Booking:
    metadata = msgspec.structs.replace(booking.metadata, resource_version=str(version))
    return msgspec.structs.replace(booking, metadata=metadata)


def test_a_booking_that_was_read_directly_is_newer_than_the_watch(cache: ClusterCache) -> None:
    released = in_version(a_booking(end=EPOCH + HOUR), 9)
    cache.of(BOOKINGS).upsert(released)

    cache.of(BOOKINGS).upsert(in_version(a_booking(), 8))
    cache.of(BOOKINGS).replace([in_version(a_booking(), 8)])

    assert cache.bookings["b-1"] == released


def test_an_older_read_does_not_bring_a_deleted_booking_back(cache: ClusterCache) -> None:
    read_before = in_version(a_booking("b-2"), 5)
    cache.of(BOOKINGS).upsert(read_before)
    cache.of(BOOKINGS).remove(in_version(a_booking("b-2"), 6))
    cache.of(BOOKINGS).upsert(read_before)
    assert set(cache.bookings) == {"b-1"}

    cache.of(BOOKINGS).replace([], "7")
    cache.of(BOOKINGS).upsert(read_before)
    assert cache.bookings == {}

    cache.of(BOOKINGS).upsert(in_version(a_booking("b-3"), 8))
    assert set(cache.bookings) == {"b-3"}


# --- pods and nodes ----------------------------------------------------------------------------------


def test_pods_that_ask_for_no_gpu_are_not_listed(cache: ClusterCache) -> None:
    cache.of(PODS).upsert(a_pod().of("alice").obj)

    assert cache.pods == {}


@pytest.mark.parametrize("amount", ["1.5", "-1", "all"])
def test_pods_with_an_unreadable_amount_are_not_listed(cache: ClusterCache, amount: str) -> None:
    """The API server refuses them; a fake or an old one may not."""
    limits = {names.GPU_RESOURCE: amount}
    raw = of_alice().raw
    body = {**raw, "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}}
    cache.of(PODS).upsert(msgspec.convert(body, Pod))

    assert (cache.pods, covered(cache)) == ({}, set())


def test_a_pod_that_no_longer_asks_for_gpus_is_no_longer_listed(cache: ClusterCache) -> None:
    cache.of(PODS).upsert(of_alice().obj)

    cache.of(PODS).upsert(a_pod().of("alice").at(2).obj)

    assert (cache.pods, covered(cache)) == ({}, set())


def test_listeners_are_notified_of_every_change(cache: ClusterCache) -> None:
    changes: list[None] = []
    cache.on_change(lambda: changes.append(None))
    node, pod, booking = a_node("n1"), of_alice().obj, a_booking()

    cache.of(PODS).upsert(pod)
    cache.of(PODS).replace([], "9")
    cache.of(PODS).remove(pod)
    cache.of(NODES).upsert(node)
    cache.of(NODES).replace([])
    cache.of(NODES).remove(node)
    cache.of(BOOKINGS).upsert(booking)
    cache.of(BOOKINGS).replace([])
    cache.of(BOOKINGS).remove(booking)

    assert len(changes) == 9


def test_an_unreadable_hold_is_logged_once(cache: ClusterCache) -> None:
    broken = of_alice().with_annotation(names.HOLD, "?")

    with capture_logs() as lines:
        cache.of(PODS).upsert(broken.obj)
        cache.of(PODS).upsert(broken.at(2).obj)
        cache.of(PODS).replace([broken.at(3).obj], "3")
        cache.of(PODS).upsert(broken.with_annotation(names.HOLD, "!").at(4).obj)

    assert [line["pod"] for line in lines] == ["default/p", "default/p"]
    assert names.HOLD in lines[0]["error"]


class TestAtOneInstant:
    def test_a_snapshot_does_not_change_afterwards(self, cache: ClusterCache) -> None:
        cache.of(LEASES).upsert(a_lease("n0"))
        node_snapshots = cache.node_snapshots()
        cache.of(PODS).upsert(a_pod("p").asks(1).on("n0", {"main": ("GPU-n0-0",)}).obj)
        cache.of(NODES).upsert(a_node("n1", a100(0, "n1")))
        view, agent = node_snapshots["n0"]
        assert (view.holdings, agent, list(node_snapshots)) == ((), "alive", ["n0"])
        assert len(cache.node_snapshots()) == 2
        assert cache.node_snapshots()["n0"][0].holdings

    def test_node_snapshots_are_the_snapshots_of_all_nodes(self, cache: ClusterCache) -> None:
        cache.of(LEASES).upsert(a_lease("n0", stopping=True))
        cache.of(NODES).upsert(a_node("n1", a100(0, "n1")))
        assert list(cache.node_snapshots().values()) == cache.snapshot(["n0", "n1"])


class TestVersions:
    def test_the_version_reached_of_each_kind_is_the_newest_seen(self, cache: ClusterCache) -> None:
        cache.of(NODES).upsert(a_node("n0", version=7))
        cache.of(PODS).upsert(a_pod("p").asks(1).at(9).obj)
        cache.of(PODS).upsert(a_pod("q").asks(1).at(8).obj)
        assert (cache.reached["nodes"], cache.reached["pods"]) == ("7", "9")
        cache.of(PODS).replace([], "20")
        assert (cache.reached["nodes"], cache.reached["pods"]) == ("7", "20")

    def test_an_older_state_of_an_object_does_not_lower_the_version_reached(
        self, cache: ClusterCache
    ) -> None:
        cache.of(PODS).upsert(a_pod("p").asks(1).at(9).obj)
        cache.of(PODS).upsert(a_pod("p").asks(1).at(8).obj)
        assert cache.reached["pods"] == "9"


class TestNotes:
    @pytest.mark.parametrize("key", sorted(RECLAIMER_ANNOTATIONS))
    def test_a_pod_with_an_annotation_of_the_reclaimer_is_noted_until_that_is_removed(
        self, cache: ClusterCache, key: str
    ) -> None:
        cache.of(PODS).upsert(a_pod("p").asks(1).with_annotation(key, "x").at(2).obj)
        assert set(cache.annotated) == {"uid-p"}
        cache.of(PODS).upsert(a_pod("p").asks(1).at(3).obj)
        assert cache.annotated == {}

    @pytest.mark.parametrize(
        ("pod", "noted"),
        [
            pytest.param(a_pod().asks(1).behind(), "queued", id="behind our gate"),
            pytest.param(a_pod().asks(1).behind("other"), "", id="behind another gate"),
            pytest.param(a_pod().behind(), "", id="behind our gate without a GPU"),
            pytest.param(a_pod().asks(1).with_annotation(names.NOTICE, "x"), "annotated", id="annotated"),
            pytest.param(a_pod().asks(1).with_annotation(names.USER, "x"), "", id="another note of ours"),
            pytest.param(a_pod().asks(1).with_annotation(names.NOTICE, "x").ended(), "", id="over"),
        ],
    )
    def test_only_live_gpu_pods_behind_our_gate_or_with_the_reclaimer_s_annotations_are_noted(
        self, cache: ClusterCache, pod: PodBuilder, noted: str
    ) -> None:
        cache.of(PODS).upsert(pod.obj)
        assert [bool(cache.annotated), bool(cache.queued)] == [noted == "annotated", noted == "queued"]

    @pytest.mark.parametrize(("status", "is_recorded"), [("True", True), ("False", False)])
    def test_a_pod_that_is_to_be_removed_is_noted(
        self, cache: ClusterCache, status: str, *, is_recorded: bool
    ) -> None:
        condition = {"type": names.DISRUPTION_TARGET, "status": status}
        body = {**a_pod().asks(1).raw, "status": {"conditions": [condition]}}
        cache.of(PODS).upsert(msgspec.convert(body, Pod))
        assert bool(cache.annotated) is is_recorded

    def test_a_deleted_pod_is_not_noted(self, cache: ClusterCache) -> None:
        pod = a_pod("p").asks(1).with_annotation(names.NOTICE, "x").at(2)
        cache.of(PODS).upsert(pod.obj)
        cache.of(PODS).remove(pod.at(3).obj)
        assert cache.annotated == {}


def test_the_usage_of_gpus_is_known_as_long_as_it_is_written_on_the_agent_s_lease(
    cache: ClusterCache,
) -> None:
    cache.of(LEASES).upsert(a_lease("n0", use="{}"))
    cache.of(LEASES).upsert(a_lease("n1"))
    assert cache.uses == {"n0": "{}"}
    cache.of(LEASES).upsert(a_lease("n0", version=2))
    assert cache.uses == {}
    cache.of(LEASES).upsert(a_lease("n0", version=3, use="{}"))
    cache.of(LEASES).remove(a_lease("n0", version=4))
    assert cache.uses == {}
    cache.of(LEASES).upsert(a_lease("n1", version=2, use="{}"))
    cache.of(LEASES).replace([], "9")
    assert cache.uses == {}


def test_an_older_lease_does_not_change_the_usage_of_gpus(cache: ClusterCache) -> None:
    cache.of(LEASES).upsert(a_lease("n0", version=3, use='{"new": 1}'))
    cache.of(LEASES).upsert(a_lease("n0", version=2, use='{"old": 1}'))
    assert cache.uses == {"n0": '{"new": 1}'}
    cache.of(LEASES).replace([a_lease("n0", version=2)], "2")
    assert cache.uses == {"n0": '{"new": 1}'}
    cache.of(LEASES).upsert(a_lease("n0", version=4))
    assert cache.uses == {}


def test_more_urgent_work_goes_first_between_the_portions_of_a_list() -> None:
    known: list[int] = []
    made = ClusterCache(FakeClock(EPOCH), at_a_time=2, give_way=lambda: known.append(len(made.pods)))
    made.of(PODS).replace([of_alice(f"p{number}").obj for number in range(5)], "9")
    assert known == [2, 4]
    assert len(made.pods) == 5
