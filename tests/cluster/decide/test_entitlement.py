"""Which pods are booked."""

from dataclasses import replace
from datetime import datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.decide.booking_use import Wanted
from cluster.decide.entitlement import Candidate, candidate, entitlement
from cluster.decide.ledger import Holding
from cluster.objects.bookings import Booking
from cluster.objects.claims import PodClaims
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
from tests.fakes.objects import A100, A6000, EPOCH, PodBuilder, a100, a_booking, a_pod

HOUR = timedelta(hours=1)
MODELS = {"GPU-n0-0": A100, "GPU-n0-1": A100, "GPU-n0-2": A6000}


def of_alice(name: str, *, minutes: int = 0, gpus: int = 1) -> PodBuilder:
    return a_pod(name).of("alice").asks(gpus).created(EPOCH + timedelta(minutes=minutes))


def covered(*pods: PodBuilder, bookings: tuple[Booking, ...] = (), now: datetime = EPOCH) -> dict[str, str]:
    found = [candidate(p.obj, held=None, models={}) for p in pods]
    result = entitlement(bookings or (a_booking(),), [c for c in found if c], now)
    return {uid.removeprefix("uid-"): booking.name for uid, booking in result.items()}


def test_a_pod_of_a_running_booking_is_covered() -> None:
    assert covered(of_alice("p")) == {"p": "b-1"}


def test_a_booking_covers_from_its_start_up_to_but_not_at_its_end() -> None:
    booking = a_booking(start=EPOCH, end=EPOCH + HOUR)
    moments = [
        EPOCH - timedelta(microseconds=1),
        EPOCH,
        EPOCH + HOUR - timedelta(microseconds=1),
        EPOCH + HOUR,
    ]
    covers = [bool(covered(of_alice("p"), bookings=(booking,), now=now)) for now in moments]
    assert covers == [False, True, True, False]


def test_a_pod_that_refuses_the_booked_model_is_not_covered() -> None:
    pod = of_alice("p")
    assert covered(pod.with_annotation(names.NOT_MODEL, A100)) == {}
    assert covered(pod.with_annotation(names.NOT_MODEL, A6000)) == {"p": "b-1"}


def test_no_pod_of_another_user_is_covered() -> None:
    assert covered(a_pod("p").of("bob").asks(1)) == {}
    assert covered(a_pod("p").asks(1)) == {}


def test_older_pods_are_covered_first_and_no_more_than_were_booked() -> None:
    pods = [of_alice("third", minutes=3), of_alice("first", minutes=1), of_alice("second", minutes=2)]
    assert set(covered(*pods, bookings=(a_booking(count=2),))) == {"first", "second"}


def test_pods_created_in_the_same_second_are_covered_in_the_order_of_their_names() -> None:
    pods = [replace(of_alice("worker-1"), uid="uid-0"), replace(of_alice("worker-0"), uid="uid-9")]
    assert covered(*pods) == {"9": "b-1"}


def test_a_claim_that_pods_share_counts_once_for_a_booking() -> None:
    def having(name: str, *claims: tuple[str, int]) -> Candidate:
        uids, counts = zip(*claims, strict=True)
        found = PodClaims(count=sum(counts), uids=uids, counts=counts)
        pod = msgspec.structs.replace(a_pod(name).of("alice").obj, claims=found)
        one = candidate(pod, held=None, models={})
        assert one is not None
        return one

    pods = [
        having("a", ("x", 1)),
        having("b", ("x", 1)),
        having("c", ("x", 1), ("y", 1)),
        having("d", ("z", 1)),
    ]
    for count, uids in ((1, "ab"), (2, "abc"), (3, "abcd")):
        found = entitlement([a_booking(count=count, resource=names.CLAIM_RESOURCE)], pods, EPOCH)
        assert set(found) == {f"uid-{one}" for one in uids}


def test_shares_of_one_gpu_by_claims_use_one_gpu_of_a_booking() -> None:
    """Each pod has a claim of its own."""

    def having(name: str, device: Device) -> Candidate:
        found = PodClaims(count=1, uids=(name,), counts=(1,))
        pod = msgspec.structs.replace(a_pod(name).of("alice").obj, claims=found)
        part = Holding(device.uuid, memory=1024, mode="time-slice", claim=name)
        one = candidate(pod, held={"": (device.uuid,)}, models={device.uuid: A100}, parts=((device, part),))
        assert one is not None
        return one

    pods = [having("a", a100(0)), having("b", a100(0)), having("c", a100(1))]
    booking = a_booking(count=1, resource=names.CLAIM_RESOURCE)
    assert set(entitlement([booking], pods, EPOCH)) == {"uid-a", "uid-b"}


def test_a_pod_that_is_too_big_is_skipped_and_a_smaller_one_is_covered() -> None:
    pods = [of_alice("big", gpus=3), of_alice("small", minutes=1)]
    assert set(covered(*pods, bookings=(a_booking(count=2),))) == {"small"}


def test_a_covered_pod_keeps_its_cover_when_an_older_pod_appears() -> None:
    returned, running = of_alice("returned"), of_alice("running", minutes=5)
    annotated = running.with_annotation(names.BOOKING, "b-1")
    assert set(covered(returned, annotated)) == {"running"}


def test_a_forged_annotation_does_not_reach_another_user_s_booking() -> None:
    forged = a_pod("p").of("bob").asks(1).with_annotation(names.BOOKING, "b-1")
    assert covered(forged, of_alice("hers")) == {"hers": "b-1"}


def test_a_recreated_pod_keeps_its_place_in_the_order() -> None:
    returned = of_alice("returned", minutes=9).with_annotation(names.FIRST_CREATED, "2026-11-23T09:00:00Z")
    assert set(covered(returned, of_alice("other", minutes=1))) == {"returned"}


def test_pods_that_leave_or_have_ended_use_no_cover() -> None:
    gone = [of_alice("leaving").terminating(), of_alice("ended").ended()]
    assert set(covered(*gone, of_alice("next", minutes=1))) == {"next"}


def test_a_request_for_another_model_is_not_covered() -> None:
    assert covered(of_alice("p").wants(A6000)) == {}
    assert covered(of_alice("p").wants(A6000, A100)) == {"p": "b-1"}


def test_a_bound_pod_is_covered_only_on_the_booked_model() -> None:
    def bound(uuid: str) -> Candidate:
        found = candidate(of_alice("p").on("n0").obj, held={"main": (uuid,)}, models=MODELS)
        assert found is not None
        return found

    assert entitlement([a_booking()], [bound("GPU-n0-0")], EPOCH)
    assert not entitlement([a_booking()], [bound("GPU-n0-2")], EPOCH)
    assert not entitlement([a_booking()], [bound("GPU-unknown")], EPOCH)


def test_a_booking_of_a_namespace_covers_only_pods_in_it() -> None:
    assert covered(of_alice("p"), bookings=(a_booking(namespace="elsewhere"),)) == {}
    assert covered(of_alice("p"), bookings=(a_booking(namespace="default"),)) == {"p": "b-1"}


def test_two_bookings_cover_as_many_pods_as_both_together() -> None:
    pods = [of_alice("p"), of_alice("q", minutes=1), of_alice("r", minutes=2)]
    both = (a_booking("b-1"), a_booking("b-2", start=EPOCH - HOUR))
    assert covered(*pods, bookings=both) == {"p": "b-2", "q": "b-1"}


def test_a_booking_that_begins_as_another_ends_takes_its_pod_over_without_a_gap() -> None:
    bookings = (
        a_booking("b-1", start=EPOCH - HOUR, end=EPOCH),
        a_booking("b-2", start=EPOCH, end=EPOCH + HOUR),
    )
    annotated = of_alice("p").with_annotation(names.BOOKING, "b-1")
    moments = (EPOCH - timedelta(microseconds=1), EPOCH)
    assert [covered(annotated, bookings=bookings, now=now) for now in moments] == [{"p": "b-1"}, {"p": "b-2"}]


def test_a_pod_is_covered_by_one_booking_and_leaves_the_other_for_the_next() -> None:
    both = (a_booking("b-1", count=2), a_booking("b-2", count=1))
    pods = [of_alice("large", gpus=2), of_alice("small", minutes=1), of_alice("late", minutes=2)]
    assert covered(*pods, bookings=both) == {"large": "b-1", "small": "b-2"}


def test_two_bookings_do_not_add_up_for_one_pod() -> None:
    assert covered(of_alice("p", gpus=2), bookings=(a_booking("b-1"), a_booking("b-2"))) == {}


def test_each_of_several_bookings_covers_only_its_own_model() -> None:
    both = (a_booking("b-1", model=A100), a_booking("b-2", model=A6000))
    pods = [of_alice("any"), of_alice("small", minutes=1).wants(A6000), of_alice("more", minutes=2)]
    assert covered(*pods, bookings=both) == {"any": "b-1", "small": "b-2"}
    picky = [of_alice("first").wants(A6000), of_alice("second", minutes=1).wants(A6000)]
    assert covered(*picky, bookings=both) == {"first": "b-2"}


def test_a_pod_with_devices_of_two_models_is_covered_by_neither() -> None:
    held = {"main": ("GPU-n0-0", "GPU-n0-2")}
    found = candidate(of_alice("p", gpus=2).on("n0").obj, held=held, models=MODELS)
    assert found is not None
    assert found.has == {A100, A6000}
    assert not entitlement([a_booking(count=2), a_booking("b-2", model=A6000, count=2)], [found], EPOCH)


def test_a_booking_that_does_not_cover_a_pod_on_its_node_leaves_it_to_another() -> None:
    found = [candidate(of_alice(name).obj, held=None, models={}) for name in ("p", "q")]
    pods, both = [one for one in found if one], [a_booking("b-1"), a_booking("b-2")]

    def cover(*barred: tuple[str, str]) -> dict[str, str]:
        result = entitlement(both, pods, EPOCH, barred=frozenset(barred))
        return {uid: booking.name for uid, booking in result.items()}

    assert cover() == {"uid-p": "b-1", "uid-q": "b-2"}
    assert cover(("uid-p", "b-1")) == {"uid-q": "b-1", "uid-p": "b-2"}
    assert cover(("uid-p", "b-1"), ("uid-p", "b-2")) == {"uid-q": "b-1"}
    assert cover(("uid-x", "b-1")) == cover()


MIG = "nvidia.com/mig-1g.10gb"


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("p").of("alice"),
        a_pod("p").of("alice").asks(1).asks(1, container="part", resource=MIG),
        a_pod("p").asks(1),
        a_pod("p").of("").asks(1),
        a_pod("p").of("alice").asks(1).terminating(),
        a_pod("p").of("alice").asks(1).ended("Failed"),
    ],
    ids=["no GPU", "a MIG device too", "no owner", "no name", "leaving", "ended"],
)
def test_no_pod_is_covered_that_has_ended_has_no_owner_or_asks_for_several_kinds(
    pod: PodBuilder,
) -> None:
    assert candidate(pod.obj, held=None, models={}) is None


SLICE = f"{A100}-MIG-1g.10gb"
SLICES = a_booking(model=SLICE, resource=MIG)


def slices(*, count: int = 1, wanted: str = "") -> PodBuilder:
    pod = a_pod("p").of("alice").asks(count, resource=MIG)
    return pod.wants(wanted) if wanted else pod


@pytest.mark.parametrize(
    ("pod", "booking", "is_covered"),
    [
        (slices(), SLICES, True),
        (slices(), a_booking(model=SLICE), False),
        (slices(), a_booking(), False),
        (a_pod("p").of("alice").asks(1), SLICES, False),
        (a_pod("p").of("alice").asks(1), a_booking(model=SLICE), True),
        (slices(wanted="1g.10gb"), SLICES, True),
        (slices(wanted="2g.20gb"), SLICES, False),
        (slices(count=2), SLICES, False),
    ],
    ids=[
        "its profile",
        "its model under another resource",
        "a whole GPU",
        "a GPU for a profile",
        "its model as GPUs",
        "wanted by profile",
        "another profile wanted",
        "too many",
    ],
)
def test_a_booking_of_a_mig_profile_covers_pods_that_request_the_resource_of_its_model(
    pod: PodBuilder, booking: Booking, *, is_covered: bool
) -> None:
    found = candidate(pod.obj, held=None, models={})
    assert found is not None
    assert bool(entitlement([booking], [found], EPOCH)) == is_covered


def test_a_pod_that_has_a_booked_mig_device_stays_covered_whatever_the_resource_is_called_now() -> None:
    pod = a_pod("p").of("alice").asks(1).obj
    running = candidate(pod, held={"main": ("MIG-1",)}, models={"MIG-1": SLICE})
    assert running is not None
    assert entitlement([SLICES], [running], EPOCH)


def test_a_pod_with_an_unreadable_amount_is_not_covered() -> None:
    raw = a_pod("p").of("alice").raw
    raw["spec"] = {"containers": [{"name": "m", "resources": {"limits": {names.GPU_RESOURCE: "x"}}}]}
    assert candidate(msgspec.convert(raw, Pod), held=None, models={}) is None


candidates = st.builds(
    Candidate,
    uid=st.uuids().map(str),
    name=st.sampled_from(["a", "b", "c"]),
    user=st.sampled_from(["alice", "bob"]),
    namespace=st.sampled_from(["lab", "class"]),
    first_created=st.integers(0, 5).map(lambda minutes: EPOCH + timedelta(minutes=minutes)),
    annotated_booking=st.sampled_from([None, "b-0", "b-1", "b-2"]),
    wants=st.builds(Wanted, st.integers(1, 4)),
    accepts=st.sampled_from([frozenset(), frozenset({A100}), frozenset({A6000})]),
    has=st.sampled_from([frozenset(), frozenset({A100}), frozenset({A6000}), frozenset({A100, A6000})]),
)
bookings = st.lists(
    st.builds(
        lambda user, model, count, hours: (user, model, count, hours),
        st.sampled_from(["alice", "bob"]),
        st.sampled_from([A100, A6000]),
        st.integers(1, 4),
        st.integers(-1, 1),
    ),
    max_size=4,
).map(
    lambda rows: [
        a_booking(f"b-{n}", user=u, model=m, count=c, start=EPOCH + h * HOUR, end=EPOCH + (h + 1) * HOUR)
        for n, (u, m, c, h) in enumerate(rows)
    ]
)


@given(bookings, st.lists(candidates, max_size=8, unique_by=lambda c: c.uid))
def test_cover_is_never_more_than_was_booked_and_does_not_depend_on_order(
    booked: list[Booking], pods: list[Candidate]
) -> None:
    result = entitlement(booked, pods, EPOCH)
    by_uid = {pod.uid: pod for pod in pods}
    for booking in booked:
        theirs = [by_uid[uid] for uid, found in result.items() if found.name == booking.name]
        assert sum(pod.gpus for pod in theirs) <= booking.spec.count
        assert not theirs or booking.is_running(EPOCH)
        assert all(pod.user == booking.spec.user for pod in theirs)
        assert all(pod.has <= {booking.spec.model} for pod in theirs)
    assert entitlement(reversed(booked), list(reversed(pods)), EPOCH) == result


@given(bookings, st.lists(candidates, max_size=8, unique_by=lambda c: c.uid))
def test_a_covered_pod_stays_covered_when_its_annotation_is_written(
    booked: list[Booking], pods: list[Candidate]
) -> None:
    result = entitlement(booked, pods, EPOCH)
    annotated = [
        replace(pod, annotated_booking=result[pod.uid].name if pod.uid in result else None) for pod in pods
    ]
    assert {u: b.name for u, b in entitlement(booked, annotated, EPOCH).items()} == {
        u: b.name for u, b in result.items()
    }
