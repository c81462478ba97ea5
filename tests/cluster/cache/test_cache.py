"""What the cache holds after any event, and whom a booking covers in it."""

import threading
from datetime import timedelta

import msgspec
import pytest
from structlog.testing import capture_logs

from cluster import names
from cluster.cache import ClusterCache
from cluster.cache.cache import RECLAIMER_ANNOTATIONS
from cluster.decide.entitlement import candidate
from cluster.fake.clock import FakeClock
from cluster.objects.assignment import encode_drift
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod
from tests.fakes.objects import A100, A6000, EPOCH, PodBuilder, a100, a6000, a_booking, a_lease, a_node, a_pod

HOUR = timedelta(hours=1)
NOW = EPOCH + HOUR


@pytest.fixture
def cache() -> ClusterCache:
    made = ClusterCache(FakeClock(EPOCH))
    made.apply_node(a_node("n0", a100(0), a100(1), a6000(2)))
    made.apply_booking(a_booking())
    return made


def of_alice(name: str = "p", *, minutes: int = 0) -> PodBuilder:
    return a_pod(name).of("alice").asks(1).created(EPOCH + timedelta(minutes=minutes))


def covered(cache: ClusterCache) -> set[str]:
    return {uid.removeprefix("uid-") for uid in cache.cover(NOW)}


def is_covered(cache: ClusterCache, pod: PodBuilder | Pod) -> bool:
    return cache.cover_of(pod.obj if isinstance(pod, PodBuilder) else pod, NOW) is not None


# --- cover -------------------------------------------------------------------------------------------


def test_a_pod_of_a_running_booking_is_covered(cache: ClusterCache) -> None:
    cache.apply_pod(of_alice().obj)

    assert covered(cache) == {"p"}
    assert is_covered(cache, of_alice())


def test_a_pod_that_was_not_seen_yet_is_covered_along_with_those_that_were(cache: ClusterCache) -> None:
    assert is_covered(cache, of_alice())

    cache.apply_pod(of_alice("older", minutes=-1).obj)

    assert not is_covered(cache, of_alice())
    assert covered(cache) == {"older"}


def test_pods_that_do_not_exist_yet_can_be_asked_about_together(cache: ClusterCache) -> None:
    coming = candidate(of_alice("coming", minutes=-1).obj, held=None, models={})
    assert coming is not None
    cache.apply_pod(of_alice().obj)

    assert set(cache.cover(NOW, more=[coming])) == {"uid-coming"}


@pytest.mark.parametrize("pod", [a_pod().asks(1), a_pod().of("bob").asks(1)])
def test_nobody_elses_pod_is_covered(cache: ClusterCache, pod: PodBuilder) -> None:
    cache.apply_pod(pod.obj)

    assert covered(cache) == set()
    assert not is_covered(cache, pod)


def test_one_answer_for_one_pod_and_for_all_of_them(cache: ClusterCache) -> None:
    cache.apply_booking(a_booking("b-2", count=2, model=A6000))
    cache.apply_booking(a_booking("b-3", user="bob", count=1))
    pods = [of_alice(f"a{n}", minutes=n) for n in range(4)] + [a_pod("b").of("bob").asks(1)]
    for pod in pods:
        cache.apply_pod(pod.obj)

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
    cache.apply_pod(of_alice().obj)

    assert cache.cover_of(of_alice().obj, EPOCH - HOUR) is None
    assert cache.cover(EPOCH - HOUR) == {}
    assert cache.cover_of(of_alice().obj, EPOCH) is not None
    assert cache.cover_of(of_alice().obj, EPOCH + timedelta(days=2)) is None


def test_a_pod_on_the_booked_model_is_covered_and_on_another_it_is_not(cache: ClusterCache) -> None:
    cache.apply_pod(of_alice("wrong").on("n0", {"main": ("GPU-n0-2",)}).obj)
    cache.apply_pod(of_alice("right", minutes=1).on("n0", {"main": ("GPU-n0-0",)}).obj)

    assert covered(cache) == {"right"}


def test_an_assumed_bind_counts_before_its_event_comes(cache: ClusterCache) -> None:
    pod = of_alice().obj
    cache.apply_pod(pod)
    assert is_covered(cache, pod)

    with cache.locked() as ledger:
        ledger.assume(pod, "n0", {"main": ("GPU-n0-2",)})
    assert not is_covered(cache, pod)

    with cache.locked() as ledger:
        ledger.forget_assumed("uid-p")
    assert is_covered(cache, pod)


def test_what_a_pod_really_has_decides_and_not_what_it_was_given(cache: ClusterCache) -> None:
    cache.apply_pod(of_alice().on("n0", {"main": ("GPU-n0-2",)}).obj)
    assert covered(cache) == set()

    drift = encode_drift({"uid-p": {"main": ("GPU-n0-1",)}})
    cache.apply_node(a_node("n0", a100(0), a100(1), a6000(2), version=2, drift=drift))

    assert covered(cache) == {"p"}
    assert is_covered(cache, of_alice())


@pytest.mark.parametrize("gone", ["terminating", "ended", "removed", "missing"])
def test_a_pod_that_leaves_makes_room_for_the_next(cache: ClusterCache, gone: str) -> None:
    first, second = of_alice("first"), of_alice("second", minutes=1)
    cache.apply_pod(first.obj)
    cache.apply_pod(second.obj)
    assert covered(cache) == {"first"}

    if gone == "removed":
        cache.remove_pod(first.at(5).obj)
    elif gone == "missing":
        cache.replace_pods([second.obj], "5")
    else:
        cache.apply_pod((first.terminating() if gone == "terminating" else first.ended()).at(5).obj)

    assert covered(cache) == {"second"}
    assert is_covered(cache, second)


def test_a_cover_annotation_that_is_written_later_counts(cache: ClusterCache) -> None:
    older, younger = of_alice("older"), of_alice("younger", minutes=1)
    cache.apply_pod(older.obj)
    cache.apply_pod(younger.obj)
    assert covered(cache) == {"older"}

    cache.apply_pod(younger.with_annotation(names.BOOKING, "b-1").at(2).obj)

    assert covered(cache) == {"younger"}


# --- bookings ----------------------------------------------------------------------------------------


def in_version(booking: Booking, version: int) -> Booking:
    metadata = msgspec.structs.replace(booking.metadata, resource_version=str(version))
    return msgspec.structs.replace(booking, metadata=metadata)


def test_a_booking_that_is_gone_covers_nobody(cache: ClusterCache) -> None:
    cache.apply_pod(of_alice().obj)

    cache.remove_booking(a_booking())

    assert covered(cache) == set()
    assert not is_covered(cache, of_alice())
    assert cache.bookings == {}


def test_all_bookings_at_once_take_the_place_of_those_that_were_known(cache: ClusterCache) -> None:
    cache.replace_bookings([a_booking("b-2", model=A6000)])

    assert set(cache.bookings) == {"b-2"}
    assert cache.cover_of(of_alice().obj, NOW) == a_booking("b-2", model=A6000)


def test_a_booking_that_was_read_by_itself_is_newer_than_the_watch(cache: ClusterCache) -> None:
    released = in_version(a_booking(end=EPOCH + HOUR), 9)
    cache.apply_booking(released)

    cache.apply_booking(in_version(a_booking(), 8))
    cache.replace_bookings([in_version(a_booking(), 8)])

    assert cache.bookings["b-1"] == released


def test_a_booking_that_is_gone_does_not_come_again_by_what_was_read_before(cache: ClusterCache) -> None:
    read_before = in_version(a_booking("b-2"), 5)
    cache.apply_booking(read_before)
    cache.remove_booking(in_version(a_booking("b-2"), 6))
    cache.apply_booking(read_before)
    assert set(cache.bookings) == {"b-1"}

    cache.replace_bookings([], "7")
    cache.apply_booking(read_before)
    assert cache.bookings == {}

    cache.apply_booking(in_version(a_booking("b-3"), 8))
    assert set(cache.bookings) == {"b-3"}


def test_bookings_are_replaced_and_never_changed(cache: ClusterCache) -> None:
    before = cache.bookings

    cache.apply_booking(a_booking("b-2"))

    assert set(before) == {"b-1"}


# --- pods and nodes ----------------------------------------------------------------------------------


def test_an_older_state_of_a_pod_changes_nothing(cache: ClusterCache) -> None:
    newest = of_alice().on("n0", {"main": ("GPU-n0-0",)}).at(7).obj
    cache.apply_pod(newest)

    cache.apply_pod(of_alice().at(6).obj)
    cache.remove_pod(of_alice().at(6).obj)
    cache.replace_pods([], "6")

    assert cache.pods == {"uid-p": newest}


def test_a_late_word_about_a_deleted_pod_does_not_raise_it(cache: ClusterCache) -> None:
    cache.apply_pod(of_alice().at(3).obj)
    cache.remove_pod(of_alice().at(5).obj)

    cache.apply_pod(of_alice().at(4).obj)

    assert cache.pods == {}


def test_pods_that_ask_for_no_gpu_are_not_listed(cache: ClusterCache) -> None:
    cache.apply_pod(a_pod().of("alice").obj)

    assert cache.pods == {}


@pytest.mark.parametrize("amount", ["1.5", "-1", "all"])
def test_pods_whose_amount_cannot_be_read_are_not_listed(cache: ClusterCache, amount: str) -> None:
    """The API server refuses them; a fake or an old one may not."""
    limits = {names.GPU_RESOURCE: amount}
    raw = of_alice().raw
    body = {**raw, "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}}
    cache.apply_pod(msgspec.convert(body, Pod))

    assert (cache.pods, covered(cache)) == ({}, set())


def test_a_pod_that_asks_for_gpus_no_more_is_listed_no_more(cache: ClusterCache) -> None:
    cache.apply_pod(of_alice().obj)

    cache.apply_pod(a_pod().of("alice").at(2).obj)

    assert (cache.pods, covered(cache)) == ({}, set())


def test_nodes_come_change_and_go(cache: ClusterCache) -> None:
    cache.replace_nodes([a_node("n1", a100(0, "n1"))])
    assert set(cache.nodes) == {"n1"}
    with cache.locked() as ledger:
        assert ledger.nodes() == ("n1",)

    newer = a_node("n1", a100(0, "n1"), version=3)
    cache.apply_node(newer)
    cache.apply_node(a_node("n1", version=2))
    assert cache.nodes == {"n1": newer}

    cache.remove_node(newer)
    assert cache.nodes == {}


def test_listeners_are_notified_of_every_change(cache: ClusterCache) -> None:
    changes: list[None] = []
    cache.on_change(lambda: changes.append(None))
    node, pod, booking = a_node("n1"), of_alice().obj, a_booking()

    cache.apply_pod(pod)
    cache.replace_pods([], "9")
    cache.remove_pod(pod)
    cache.apply_node(node)
    cache.replace_nodes([])
    cache.remove_node(node)
    cache.apply_booking(booking)
    cache.replace_bookings([])
    cache.remove_booking(booking)

    assert len(changes) == 9


def test_a_hold_that_cannot_be_read_is_logged_once(cache: ClusterCache) -> None:
    broken = of_alice().with_annotation(names.HOLD, "?")

    with capture_logs() as lines:
        cache.apply_pod(broken.obj)
        cache.apply_pod(broken.at(2).obj)
        cache.replace_pods([broken.at(3).obj], "3")
        cache.apply_pod(broken.with_annotation(names.HOLD, "!").at(4).obj)

    assert [line["pod"] for line in lines] == ["default/p", "default/p"]
    assert names.HOLD in lines[0]["error"]


def test_models_are_those_of_the_nodes_devices(cache: ClusterCache) -> None:
    ((view, agent),) = cache.snapshot(["n0"])

    assert view.models == {"GPU-n0-0": A100, "GPU-n0-1": A100, "GPU-n0-2": A6000}
    assert agent == "unseen"


class TestAtOneInstant:
    def test_what_was_taken_stays_as_it_was(self, cache: ClusterCache) -> None:
        cache.apply_lease(a_lease("n0"))
        node_snapshots = cache.node_snapshots()
        cache.apply_pod(a_pod("p").asks(1).on("n0", {"main": ("GPU-n0-0",)}).obj)
        cache.apply_node(a_node("n1", a100(0, "n1")))
        view, agent = node_snapshots["n0"]
        assert (view.holdings, agent, list(node_snapshots)) == ((), "alive", ["n0"])
        assert len(cache.node_snapshots()) == 2
        assert cache.node_snapshots()["n0"][0].holdings

    def test_it_is_the_snapshot_of_each_node(self, cache: ClusterCache) -> None:
        cache.apply_lease(a_lease("n0", stopping=True))
        cache.apply_node(a_node("n1", a100(0, "n1")))
        assert list(cache.node_snapshots().values()) == cache.snapshot(["n0", "n1"])


class TestVersions:
    def test_the_newest_of_each_kind_is_what_it_has_reached(self, cache: ClusterCache) -> None:
        cache.apply_node(a_node("n0", version=7))
        cache.apply_pod(a_pod("p").asks(1).at(9).obj)
        cache.apply_pod(a_pod("q").asks(1).at(8).obj)
        assert (cache.reached["nodes"], cache.reached["pods"]) == ("7", "9")
        cache.replace_pods([], "20")
        assert (cache.reached["nodes"], cache.reached["pods"]) == ("7", "20")

    def test_an_old_word_about_a_known_object_takes_nothing_back(self, cache: ClusterCache) -> None:
        cache.apply_pod(a_pod("p").asks(1).at(9).obj)
        cache.apply_pod(a_pod("p").asks(1).at(8).obj)
        assert cache.reached["pods"] == "9"


class TestNotes:
    @pytest.mark.parametrize("key", sorted(RECLAIMER_ANNOTATIONS))
    def test_a_pod_with_something_of_the_reclaimers_is_noted_until_it_is_taken_off(
        self, cache: ClusterCache, key: str
    ) -> None:
        cache.apply_pod(a_pod("p").asks(1).with_annotation(key, "x").at(2).obj)
        assert set(cache.noted) == {"uid-p"}
        cache.apply_pod(a_pod("p").asks(1).at(3).obj)
        assert cache.noted == {}

    @pytest.mark.parametrize(
        ("pod", "is_noted"),
        [
            pytest.param(a_pod().asks(1).behind(), True, id="behind our gate"),
            pytest.param(a_pod().asks(1).behind("other"), False, id="behind another gate"),
            pytest.param(a_pod().behind(), False, id="behind our gate without a GPU"),
            pytest.param(a_pod().asks(1).with_annotation(names.USER, "x"), False, id="another note of ours"),
            pytest.param(a_pod().asks(1).with_annotation(names.NOTICE, "x").ended(), False, id="over"),
        ],
    )
    def test_only_a_pod_that_something_is_kept_up_to_date_on_is_noted(
        self, cache: ClusterCache, pod: PodBuilder, *, is_noted: bool
    ) -> None:
        cache.apply_pod(pod.obj)
        assert bool(cache.noted) is is_noted

    @pytest.mark.parametrize(("status", "is_noted"), [("True", True), ("False", False)])
    def test_a_pod_that_is_to_be_removed_is_noted(
        self, cache: ClusterCache, status: str, *, is_noted: bool
    ) -> None:
        condition = {"type": names.DISRUPTION_TARGET, "status": status}
        body = {**a_pod().asks(1).raw, "status": {"conditions": [condition]}}
        cache.apply_pod(msgspec.convert(body, Pod))
        assert bool(cache.noted) is is_noted

    def test_a_pod_that_is_gone_is_not_noted(self, cache: ClusterCache) -> None:
        pod = a_pod("p").asks(1).with_annotation(names.NOTICE, "x").at(2)
        cache.apply_pod(pod.obj)
        cache.remove_pod(pod.at(3).obj)
        assert cache.noted == {}


def test_how_gpus_are_used_is_known_as_long_as_an_agents_lease_says_it(cache: ClusterCache) -> None:
    cache.apply_lease(a_lease("n0", use="{}"))
    cache.apply_lease(a_lease("n1"))
    assert cache.uses == {"n0": "{}"}
    cache.apply_lease(a_lease("n0", version=2))
    assert cache.uses == {}
    cache.apply_lease(a_lease("n0", version=3, use="{}"))
    cache.remove_lease(a_lease("n0", version=4))
    assert cache.uses == {}
    cache.apply_lease(a_lease("n1", version=2, use="{}"))
    cache.replace_leases([], "9")
    assert cache.uses == {}


def test_an_older_lease_does_not_say_how_gpus_are_used_now(cache: ClusterCache) -> None:
    cache.apply_lease(a_lease("n0", version=3, use='{"new": 1}'))
    cache.apply_lease(a_lease("n0", version=2, use='{"old": 1}'))
    assert cache.uses == {"n0": '{"new": 1}'}
    cache.replace_leases([a_lease("n0", version=2)], "2")
    assert cache.uses == {"n0": '{"new": 1}'}
    cache.apply_lease(a_lease("n0", version=4))
    assert cache.uses == {}


def test_between_portions_of_a_list_whatever_is_more_urgent_goes_first() -> None:
    known: list[int] = []
    made = ClusterCache(FakeClock(EPOCH), at_a_time=2, give_way=lambda: known.append(len(made.pods)))
    made.replace_pods([of_alice(f"p{number}").obj for number in range(5)], "9")
    assert known == [2, 4]
    assert len(made.pods) == 5
