"""What the picture knows after any news, and whom a booking covers in it."""

import threading
from datetime import timedelta

import msgspec
import pytest
from structlog.testing import capture_logs

from cluster import names
from cluster.decide.entitlement import candidate
from cluster.fake.clock import FakeClock
from cluster.objects.assignment import encode_drift
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod
from cluster.picture import Picture
from cluster.picture.picture import NOTES
from tests.fakes.objects import A100, A6000, EPOCH, PodBuilder, a100, a6000, a_booking, a_lease, a_node, a_pod

HOUR = timedelta(hours=1)
NOW = EPOCH + HOUR


@pytest.fixture
def picture() -> Picture:
    made = Picture(FakeClock(EPOCH))
    made.apply_node(a_node("n0", a100(0), a100(1), a6000(2)))
    made.apply_booking(a_booking())
    return made


def of_alice(name: str = "p", *, minutes: int = 0) -> PodBuilder:
    return a_pod(name).of("alice").asks(1).created(EPOCH + timedelta(minutes=minutes))


def covered(picture: Picture) -> set[str]:
    return {uid.removeprefix("uid-") for uid in picture.cover(NOW)}


def is_covered(picture: Picture, pod: PodBuilder | Pod) -> bool:
    return picture.cover_of(pod.obj if isinstance(pod, PodBuilder) else pod, NOW) is not None


# --- cover -------------------------------------------------------------------------------------------


def test_a_pod_of_a_running_booking_is_covered(picture: Picture) -> None:
    picture.apply_pod(of_alice().obj)

    assert covered(picture) == {"p"}
    assert is_covered(picture, of_alice())


def test_a_pod_that_was_not_seen_yet_is_covered_beside_those_that_were(picture: Picture) -> None:
    assert is_covered(picture, of_alice())

    picture.apply_pod(of_alice("older", minutes=-1).obj)

    assert not is_covered(picture, of_alice())
    assert covered(picture) == {"older"}


def test_pods_that_do_not_exist_yet_can_be_asked_about_together(picture: Picture) -> None:
    coming = candidate(of_alice("coming", minutes=-1).obj, held=None, models={})
    assert coming is not None
    picture.apply_pod(of_alice().obj)

    assert set(picture.cover(NOW, more=[coming])) == {"uid-coming"}


@pytest.mark.parametrize("pod", [a_pod().asks(1), a_pod().of("bob").asks(1)])
def test_nobody_elses_pod_is_covered(picture: Picture, pod: PodBuilder) -> None:
    picture.apply_pod(pod.obj)

    assert covered(picture) == set()
    assert not is_covered(picture, pod)


def test_one_answer_for_one_pod_and_for_all_of_them(picture: Picture) -> None:
    picture.apply_booking(a_booking("b-2", count=2, model=A6000))
    picture.apply_booking(a_booking("b-3", user="bob", count=1))
    pods = [of_alice(f"a{n}", minutes=n) for n in range(4)] + [a_pod("b").of("bob").asks(1)]
    for pod in pods:
        picture.apply_pod(pod.obj)

    together = picture.cover(NOW)

    assert len(together) == 4
    for pod in pods:
        assert picture.cover_of(pod.obj, NOW) == together.get(pod.obj.metadata.uid)


def test_who_has_no_owner_is_not_kept_waiting_for_the_picture(picture: Picture) -> None:
    found: list[Booking | None] = []
    asking = threading.Thread(target=lambda: found.append(picture.cover_of(a_pod().asks(1).obj, NOW)))
    with picture.locked():
        asking.start()
        asking.join(60)
    assert found == [None]


def test_cover_begins_and_ends_with_the_booking_without_any_news(picture: Picture) -> None:
    picture.apply_pod(of_alice().obj)

    assert picture.cover_of(of_alice().obj, EPOCH - HOUR) is None
    assert picture.cover(EPOCH - HOUR) == {}
    assert picture.cover_of(of_alice().obj, EPOCH) is not None
    assert picture.cover_of(of_alice().obj, EPOCH + timedelta(days=2)) is None


def test_a_pod_on_the_booked_model_is_covered_and_on_another_it_is_not(picture: Picture) -> None:
    picture.apply_pod(of_alice("wrong").on("n0", {"main": ("GPU-n0-2",)}).obj)
    picture.apply_pod(of_alice("right", minutes=1).on("n0", {"main": ("GPU-n0-0",)}).obj)

    assert covered(picture) == {"right"}


def test_an_assumed_bind_counts_before_its_event_comes(picture: Picture) -> None:
    pod = of_alice().obj
    picture.apply_pod(pod)
    assert is_covered(picture, pod)

    with picture.locked() as ledger:
        ledger.assume(pod, "n0", {"main": ("GPU-n0-2",)})
    assert not is_covered(picture, pod)

    with picture.locked() as ledger:
        ledger.forget_assumed("uid-p")
    assert is_covered(picture, pod)


def test_what_a_pod_really_has_decides_and_not_what_it_was_given(picture: Picture) -> None:
    picture.apply_pod(of_alice().on("n0", {"main": ("GPU-n0-2",)}).obj)
    assert covered(picture) == set()

    drift = encode_drift({"uid-p": {"main": ("GPU-n0-1",)}})
    picture.apply_node(a_node("n0", a100(0), a100(1), a6000(2), version=2, drift=drift))

    assert covered(picture) == {"p"}
    assert is_covered(picture, of_alice())


@pytest.mark.parametrize("gone", ["terminating", "ended", "removed", "missing"])
def test_a_pod_that_leaves_makes_room_for_the_next(picture: Picture, gone: str) -> None:
    first, second = of_alice("first"), of_alice("second", minutes=1)
    picture.apply_pod(first.obj)
    picture.apply_pod(second.obj)
    assert covered(picture) == {"first"}

    if gone == "removed":
        picture.remove_pod(first.at(5).obj)
    elif gone == "missing":
        picture.replace_pods([second.obj], "5")
    else:
        picture.apply_pod((first.terminating() if gone == "terminating" else first.ended()).at(5).obj)

    assert covered(picture) == {"second"}
    assert is_covered(picture, second)


def test_a_stamp_that_is_written_later_counts(picture: Picture) -> None:
    older, younger = of_alice("older"), of_alice("younger", minutes=1)
    picture.apply_pod(older.obj)
    picture.apply_pod(younger.obj)
    assert covered(picture) == {"older"}

    picture.apply_pod(younger.with_annotation(names.BOOKING, "b-1").at(2).obj)

    assert covered(picture) == {"younger"}


# --- bookings ----------------------------------------------------------------------------------------


def in_version(booking: Booking, version: int) -> Booking:
    metadata = msgspec.structs.replace(booking.metadata, resource_version=str(version))
    return msgspec.structs.replace(booking, metadata=metadata)


def test_a_booking_that_is_gone_covers_nobody(picture: Picture) -> None:
    picture.apply_pod(of_alice().obj)

    picture.remove_booking(a_booking())

    assert covered(picture) == set()
    assert not is_covered(picture, of_alice())
    assert picture.bookings == {}


def test_all_bookings_at_once_take_the_place_of_those_that_were_known(picture: Picture) -> None:
    picture.replace_bookings([a_booking("b-2", model=A6000)])

    assert set(picture.bookings) == {"b-2"}
    assert picture.cover_of(of_alice().obj, NOW) == a_booking("b-2", model=A6000)


def test_a_booking_that_was_read_by_itself_is_newer_than_the_watch(picture: Picture) -> None:
    released = in_version(a_booking(end=EPOCH + HOUR), 9)
    picture.apply_booking(released)

    picture.apply_booking(in_version(a_booking(), 8))
    picture.replace_bookings([in_version(a_booking(), 8)])

    assert picture.bookings["b-1"] == released


def test_a_booking_that_is_gone_does_not_come_again_by_what_was_read_before(picture: Picture) -> None:
    read_before = in_version(a_booking("b-2"), 5)
    picture.apply_booking(read_before)
    picture.remove_booking(in_version(a_booking("b-2"), 6))
    picture.apply_booking(read_before)
    assert set(picture.bookings) == {"b-1"}

    picture.replace_bookings([], "7")
    picture.apply_booking(read_before)
    assert picture.bookings == {}

    picture.apply_booking(in_version(a_booking("b-3"), 8))
    assert set(picture.bookings) == {"b-3"}


def test_bookings_are_replaced_and_never_changed(picture: Picture) -> None:
    before = picture.bookings

    picture.apply_booking(a_booking("b-2"))

    assert set(before) == {"b-1"}


# --- pods and nodes ----------------------------------------------------------------------------------


def test_an_older_state_of_a_pod_changes_nothing(picture: Picture) -> None:
    newest = of_alice().on("n0", {"main": ("GPU-n0-0",)}).at(7).obj
    picture.apply_pod(newest)

    picture.apply_pod(of_alice().at(6).obj)
    picture.remove_pod(of_alice().at(6).obj)
    picture.replace_pods([], "6")

    assert picture.pods == {"uid-p": newest}


def test_a_late_word_about_a_deleted_pod_does_not_raise_it(picture: Picture) -> None:
    picture.apply_pod(of_alice().at(3).obj)
    picture.remove_pod(of_alice().at(5).obj)

    picture.apply_pod(of_alice().at(4).obj)

    assert picture.pods == {}


def test_pods_that_ask_for_no_gpu_are_not_listed(picture: Picture) -> None:
    picture.apply_pod(a_pod().of("alice").obj)

    assert picture.pods == {}


def test_nodes_come_change_and_go(picture: Picture) -> None:
    picture.replace_nodes([a_node("n1", a100(0, "n1"))])
    assert set(picture.nodes) == {"n1"}
    with picture.locked() as ledger:
        assert ledger.nodes() == ("n1",)

    newer = a_node("n1", a100(0, "n1"), version=3)
    picture.apply_node(newer)
    picture.apply_node(a_node("n1", version=2))
    assert picture.nodes == {"n1": newer}

    picture.remove_node(newer)
    assert picture.nodes == {}


def test_whoever_watches_is_told_of_every_change(picture: Picture) -> None:
    told: list[None] = []
    picture.on_change(lambda: told.append(None))
    node, pod, booking = a_node("n1"), of_alice().obj, a_booking()

    picture.apply_pod(pod)
    picture.replace_pods([], "9")
    picture.remove_pod(pod)
    picture.apply_node(node)
    picture.replace_nodes([])
    picture.remove_node(node)
    picture.apply_booking(booking)
    picture.replace_bookings([])
    picture.remove_booking(booking)

    assert len(told) == 9


def test_a_hold_that_cannot_be_read_is_logged_once(picture: Picture) -> None:
    broken = of_alice().with_annotation(names.HOLD, "?")

    with capture_logs() as lines:
        picture.apply_pod(broken.obj)
        picture.apply_pod(broken.at(2).obj)
        picture.replace_pods([broken.at(3).obj], "3")
        picture.apply_pod(broken.with_annotation(names.HOLD, "!").at(4).obj)

    assert [line["pod"] for line in lines] == ["default/p", "default/p"]
    assert names.HOLD in lines[0]["why"]


def test_models_are_those_of_the_nodes_devices(picture: Picture) -> None:
    ((view, agent),) = picture.look(["n0"])

    assert view.models == {"GPU-n0-0": A100, "GPU-n0-1": A100, "GPU-n0-2": A6000}
    assert agent == "unseen"


class TestAtOneInstant:
    def test_what_was_taken_stays_as_it_was(self, picture: Picture) -> None:
        picture.apply_lease(a_lease("n0"))
        looks = picture.looks()
        picture.apply_pod(a_pod("p").asks(1).on("n0", {"main": ("GPU-n0-0",)}).obj)
        picture.apply_node(a_node("n1", a100(0, "n1")))
        view, agent = looks["n0"]
        assert (view.claims, agent, list(looks)) == ((), "alive", ["n0"])
        assert len(picture.looks()) == 2
        assert picture.looks()["n0"][0].claims

    def test_it_is_what_is_told_of_each_node(self, picture: Picture) -> None:
        picture.apply_lease(a_lease("n0", stopping=True))
        picture.apply_node(a_node("n1", a100(0, "n1")))
        assert list(picture.looks().values()) == picture.look(["n0", "n1"])


class TestVersions:
    def test_the_newest_of_each_kind_is_what_it_has_reached(self, picture: Picture) -> None:
        picture.apply_node(a_node("n0", version=7))
        picture.apply_pod(a_pod("p").asks(1).at(9).obj)
        picture.apply_pod(a_pod("q").asks(1).at(8).obj)
        assert (picture.reached["nodes"], picture.reached["pods"]) == ("7", "9")
        picture.replace_pods([], "20")
        assert (picture.reached["nodes"], picture.reached["pods"]) == ("7", "20")

    def test_an_old_word_about_a_known_object_takes_nothing_back(self, picture: Picture) -> None:
        picture.apply_pod(a_pod("p").asks(1).at(9).obj)
        picture.apply_pod(a_pod("p").asks(1).at(8).obj)
        assert picture.reached["pods"] == "9"


class TestNotes:
    @pytest.mark.parametrize("key", sorted(NOTES))
    def test_a_pod_with_something_of_the_reclaimers_is_noted_until_it_is_taken_off(
        self, picture: Picture, key: str
    ) -> None:
        picture.apply_pod(a_pod("p").asks(1).with_annotation(key, "x").at(2).obj)
        assert set(picture.noted) == {"uid-p"}
        picture.apply_pod(a_pod("p").asks(1).at(3).obj)
        assert picture.noted == {}

    def test_a_pod_that_is_gone_is_not_noted(self, picture: Picture) -> None:
        pod = a_pod("p").asks(1).with_annotation(names.NOTICE, "x").at(2)
        picture.apply_pod(pod.obj)
        picture.remove_pod(pod.at(3).obj)
        assert picture.noted == {}


def test_how_gpus_are_used_is_known_as_long_as_an_agents_lease_says_it(picture: Picture) -> None:
    picture.apply_lease(a_lease("n0", use="{}"))
    picture.apply_lease(a_lease("n1"))
    assert picture.uses == {"n0": "{}"}
    picture.apply_lease(a_lease("n0", version=2))
    assert picture.uses == {}
    picture.apply_lease(a_lease("n0", version=3, use="{}"))
    picture.remove_lease(a_lease("n0", version=4))
    assert picture.uses == {}
    picture.apply_lease(a_lease("n1", version=2, use="{}"))
    picture.replace_leases([], "9")
    assert picture.uses == {}


def test_between_portions_of_a_list_whatever_is_more_urgent_goes_first() -> None:
    known: list[int] = []
    made = Picture(FakeClock(EPOCH), at_a_time=2, give_way=lambda: known.append(len(made.pods)))
    made.replace_pods([of_alice(f"p{number}").obj for number in range(5)], "9")
    assert known == [2, 4]
    assert len(made.pods) == 5
