"""Which booking covers a pod, or the one reason why none does."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from cluster.decide.coverage import Coverage, Kind, coverage
from cluster.decide.entitlement import UserCoverage, candidate, entitlement
from cluster.objects.bookings import Booking
from tests.fakes.objects import A100, A6000, EPOCH, PodBuilder, a_booking, a_pod

HOUR = timedelta(hours=1)
POD = "uid-p"
MIG = "nvidia.com/mig-1g.10gb"


def alices(name: str = "p", gpus: int = 1) -> PodBuilder:
    return a_pod(name).of("alice").asks(gpus).wants(A100).created(EPOCH)


def cluster_objects(
    bookings: Iterable[Booking],
    pods: Iterable[PodBuilder],
    barred: AbstractSet[tuple[str, str]] = frozenset(),
) -> UserCoverage:
    known = tuple(bookings)
    found = {pod.obj.metadata.uid: pod.obj for pod in pods}
    candidates = [one for pod in found.values() if (one := candidate(pod, held=None, models={}))]
    covered = entitlement(known, candidates, EPOCH, barred=barred)
    return UserCoverage(bookings=known, pods=found, covered=covered, barred=barred)


def why(
    pod: PodBuilder,
    *bookings: Booking,
    others: tuple[PodBuilder, ...] = (),
    barred: AbstractSet[tuple[str, str]] = frozenset(),
) -> Coverage:
    """The coverage of a pod that is younger than all others of its owner."""
    younger = pod.created(EPOCH + HOUR)
    return coverage(younger.obj, cluster_objects(bookings, (younger, *others), barred), EPOCH)


def verdict(found: Coverage) -> tuple[Kind, str | None]:
    return found.kind, found.booking.name if found.booking else None


# --- pods that a booking covers ----------------------------------------------------------------------
def test_the_booking_of_a_covered_pod_is_reported() -> None:
    booking = a_booking()
    found = why(alices(), booking)
    assert (found.kind, found.booking, found.cover) == ("covered", booking, booking)
    assert found.asks is not None
    assert found.asks.uid == POD


def test_a_booking_that_does_not_cover_the_pod_is_not_its_cover() -> None:
    found = why(alices(), a_booking(model=A6000))
    assert found.booking is not None
    assert found.cover is None


def test_other_bookings_of_a_covered_pod_s_user_are_not_reported() -> None:
    earlier = a_booking("b-0", model=A6000, start=EPOCH - HOUR)
    assert verdict(why(alices(), earlier, a_booking("b-1"))) == ("covered", "b-1")


# --- pods that no booking can cover ------------------------------------------------------------------
@pytest.mark.parametrize(
    "pod",
    [
        a_pod().asks(1),
        a_pod().of("alice"),
        alices().asks(1, container="slice", resource=MIG),
        alices().terminating(),
        alices().ended(),
    ],
    ids=["without a user", "without GPUs", "of both kinds", "terminating", "ended"],
)
def test_a_pod_that_no_booking_can_cover_is_reported_as_such_whatever_is_booked(pod: PodBuilder) -> None:
    assert why(pod, a_booking()) == Coverage(kind="unbookable")


# --- running bookings --------------------------------------------------------------------------------
def test_a_user_without_any_booking_is_reported_as_having_none() -> None:
    assert why(alices()) == Coverage(kind="none")


@pytest.mark.parametrize(
    ("booking", "kind"),
    [
        (a_booking(namespace="research"), "namespace"),
        (a_booking(model=A6000), "model"),
        (a_booking(count=1), "count"),
        (a_booking(namespace="research", model=A6000, count=1), "namespace"),
        (a_booking(model=A6000, count=1), "model"),
    ],
    ids=["namespace", "model", "count", "all of them", "model and count"],
)
def test_the_first_failed_check_of_a_running_booking_is_reported(booking: Booking, kind: Kind) -> None:
    found = why(alices(gpus=2), booking)
    assert verdict(found) == (kind, "b-1")
    assert found.asks is not None
    assert (found.users, found.left) == ((), 0)


def test_a_pod_may_ask_for_exactly_as_many_gpus_as_were_booked() -> None:
    kinds = [why(alices(gpus=gpus), a_booking(count=2)).kind for gpus in (1, 2, 3)]
    assert kinds == ["covered", "covered", "count"]


def test_a_pod_that_accepts_the_booked_model_among_others_is_not_rejected() -> None:
    assert why(alices().wants(A6000, A100), a_booking()).kind == "covered"
    assert why(alices().wants(A6000), a_booking()).kind == "model"


def test_a_bound_pod_is_judged_by_the_devices_that_it_has() -> None:
    pod = alices().obj
    user_coverage = UserCoverage(bookings=(a_booking(),), pods={POD: pod})
    has = candidate(pod, held={"main": ("GPU-0",)}, models={"GPU-0": A6000})
    assert has is not None
    found = coverage(pod, user_coverage, EPOCH, asks=has)
    assert (found.kind, found.asks) == ("model", has)
    assert coverage(pod, user_coverage, EPOCH).kind == "used-up"


def test_a_booking_runs_from_its_start_up_to_but_not_at_its_end() -> None:
    mismatched = a_booking(model=A6000, start=EPOCH, end=EPOCH + HOUR)
    seen = cluster_objects((mismatched,), (alices(),))
    moments = [EPOCH, EPOCH + HOUR - timedelta(microseconds=1), EPOCH + HOUR]
    kinds = [coverage(alices().obj, seen, now).kind for now in moments]
    assert kinds == ["model", "model", "none"]


# --- a booking that is used up -----------------------------------------------------------------------
def test_the_pods_that_use_up_a_booking_are_reported_in_the_order_of_their_names() -> None:
    users = (alices("z", 2), alices("a"))
    found = why(alices("p", 2), a_booking(count=4), others=users)
    assert verdict(found) == ("used-up", "b-1")
    assert [pod.key for pod in found.users] == ["default/a", "default/z"]
    assert found.left == 1


def test_a_booking_whose_gpus_are_all_in_use_has_none_left() -> None:
    found = why(alices("p"), a_booking(count=2), others=(alices("a"), alices("b")))
    assert (found.kind, len(found.users), found.left) == ("used-up", 2, 0)


def test_pods_that_another_booking_covers_do_not_use_this_one_up() -> None:
    first, second = a_booking("b-1"), a_booking("b-2", count=2, start=EPOCH - HOUR, model=A6000)
    others = (alices("a"), alices("b", 2).wants(A6000))
    found = why(alices("p"), first, second, others=others)
    assert verdict(found) == ("used-up", "b-1")
    assert ([pod.metadata.name for pod in found.users], found.left) == (["a"], 0)


def test_a_leaving_pod_counts_as_using_nothing_of_its_booking() -> None:
    booking, leaving = a_booking(count=1), alices("a").terminating().obj
    user_coverage = UserCoverage(
        bookings=(booking,), pods={"uid-a": leaving, POD: alices().obj}, covered={"uid-a": booking}
    )
    found = coverage(alices().obj, user_coverage, EPOCH)
    assert (found.kind, found.users, found.left) == ("used-up", (leaving,), 1)


# --- a running pod in another booking's place --------------------------------------------------------
def test_l5_a_pod_in_a_place_planned_for_others_gets_that_as_the_reason() -> None:
    found = why(alices(), a_booking(), barred={(POD, "b-1")})
    assert verdict(found) == ("place", "b-1")
    assert (found.users, found.left) == ((), 0)
    assert found.asks is not None


@pytest.mark.parametrize("pair", [("uid-a", "b-1"), (POD, "b-2")], ids=["other pod", "other booking"])
def test_a_misplaced_pair_of_another_pod_or_booking_is_not_reported(
    pair: tuple[str, str],
) -> None:
    assert why(alices(), a_booking(), others=(alices("a"), alices("b")), barred={pair}).kind == "used-up"


def test_a_mismatch_is_reported_before_the_place() -> None:
    found = why(alices(), a_booking(model=A6000), barred={(POD, "b-1")})
    assert verdict(found) == ("model", "b-1")


# --- several running bookings ------------------------------------------------------------------------
_FAR_TO_NEAR: dict[Kind, Booking] = {
    "namespace": a_booking("namespace", namespace="research"),
    "model": a_booking("model", model=A6000, count=2),
    "count": a_booking("count", count=1),
    "used-up": a_booking("used-up", count=2),
    "place": a_booking("place", count=2),
}
"""Bookings in each of which another check is the first to fail, for a pod of two GPUs."""


@pytest.mark.parametrize("is_reversed", [False, True], ids=["in order", "reversed"])
@pytest.mark.parametrize(("farther", "nearer"), list(pairwise(_FAR_TO_NEAR)))
def test_the_booking_that_fails_at_the_latest_check_is_reported(
    farther: Kind, nearer: Kind, *, is_reversed: bool
) -> None:
    bookings = [_FAR_TO_NEAR[farther], _FAR_TO_NEAR[nearer]]
    user_coverage = UserCoverage(
        bookings=tuple(reversed(bookings) if is_reversed else bookings),
        pods={POD: alices().obj},
        barred={(POD, "place")},
    )
    assert verdict(coverage(alices(gpus=2).obj, user_coverage, EPOCH)) == (nearer, nearer)


def test_the_earlier_of_two_bookings_that_fail_at_the_same_check_is_reported() -> None:
    earlier = a_booking("b-9", model=A6000, start=EPOCH - HOUR)
    later = a_booking("b-1", model=A6000)
    assert why(alices(), later, earlier).booking == earlier
    assert why(alices(), earlier, later).booking == earlier


def test_the_first_by_name_of_two_bookings_that_began_together_is_reported() -> None:
    first, second = a_booking("b-1", model=A6000), a_booking("b-2", model=A6000)
    assert why(alices(), second, first).booking == first


# --- future bookings ---------------------------------------------------------------------------------
def _future(name: str = "b-1", hours: int = 1, **more: Any) -> Booking:
    start = EPOCH + hours * HOUR
    return a_booking(name, start=start, end=start + HOUR, **more)


def test_a_booking_that_will_cover_the_pod_is_reported_with_the_pod() -> None:
    booking = _future()
    found = why(alices(), booking)
    assert (found.kind, found.booking, found.cover) == ("later", booking, None)
    assert found.asks is not None


@pytest.mark.parametrize("is_reversed", [False, True])
def test_the_earliest_suitable_future_booking_is_reported(*, is_reversed: bool) -> None:
    bookings = [_future("b-1", 3), _future("b-2", 2), _future("b-3", 1, model=A6000)]
    if is_reversed:
        bookings.reverse()
    assert verdict(why(alices(), *bookings)) == ("later", "b-2")


@pytest.mark.parametrize(
    "booking",
    [
        _future(namespace="research"),
        _future(model=A6000),
        _future(count=1),
        a_booking(count=2, start=EPOCH + HOUR, end=EPOCH + HOUR),
        a_booking(count=2, start=EPOCH - HOUR, end=EPOCH),
    ],
    ids=["namespace", "model", "count", "released before its start", "over"],
)
def test_a_booking_that_will_never_cover_the_pod_is_not_announced_to_it(booking: Booking) -> None:
    assert why(alices(gpus=2), booking) == Coverage(kind="none")


def test_a_running_booking_is_reported_before_a_future_one() -> None:
    assert verdict(why(alices(), _future("b-2"), a_booking("b-1", model=A6000))) == ("model", "b-1")


def test_a_future_booking_that_other_pods_will_use_up_is_still_reported() -> None:
    assert why(alices(), _future(), others=(alices("a"),)).kind == "later"
