"""Which pods each of a user's bookings covered to its end: as ``covered_at`` answers for each of them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.eviction.past_coverage import covered_at, covered_to_the_end
from booking.eviction.settings import EvictionSettings
from booking.server.cluster_status.holder_classes import Classes
from booking.server.cluster_status.snapshot import StatusSnapshot, take
from cluster import names
from cluster.cache import ClusterCache
from cluster.fake.clock import FakeClock
from cluster.kube.resources import BOOKINGS, NODES, PODS
from cluster.objects.bookings import Booking
from cluster.objects.cover_annotations import text_of
from cluster.objects.pods import Pod
from tests.fakes.objects import A100, A6000, a100, a6000, a_booking, a_node, a_pod

CLOCK: Final = FakeClock()
NOW: Final = CLOCK.now()
SECOND: Final = timedelta(seconds=1)
GONE: Final = "uid-gone"
INSTANTS: Final = st.integers(-12, 6).map(lambda at: NOW + at * SECOND)
NAMESPACES: Final = ("default", "vision")


@st.composite
def a_users_bookings(draw: st.DrawFn) -> list[Booking]:
    """Bookings that overlap or not, some over, some spans empty; of some a pod has ended."""
    found = []
    for number in range(draw(st.integers(0, 8))):
        booking = a_booking(
            f"b{number}",
            model=draw(st.sampled_from((A100, A6000))),
            count=draw(st.integers(0, 4)),
            start=draw(INSTANTS),
            end=draw(INSTANTS),
            namespace=draw(st.sampled_from((None, *NAMESPACES))),
        )
        ending = (GONE,) * draw(st.integers(0, 2))
        status = msgspec.structs.replace(booking.status, ending=ending)
        found.append(msgspec.structs.replace(booking, status=status))
    return found


@st.composite
def a_users_pods(draw: st.DrawFn) -> list[Pod]:
    """Pods with and without devices, annotated or not, come back or not, of several sizes."""
    found = []
    free = {"n0": list(range(8)), "n1": list(range(8))}
    for number in range(draw(st.integers(0, 10))):
        size = draw(st.integers(1, 3))
        pod = a_pod(draw(st.sampled_from("pqr")) + str(number)).of("alice").created(draw(INSTANTS)).asks(size)
        node = draw(st.sampled_from((None, "n0", "n1")))
        if node and len(free[node]) >= size:
            devices = tuple(f"GPU-{node}-{free[node].pop()}" for _ in range(size))
            pod = pod.on(node, {"main": devices})
        if draw(st.booleans()):
            pod = pod.with_annotation(names.BOOKING, f"b{draw(st.integers(0, 8))}")
        if draw(st.booleans()):
            pod = pod.with_annotation(names.FIRST_CREATED, text_of(draw(INSTANTS)))
        if draw(st.integers(0, 3)) == 0:
            pod = pod.with_annotation(names.MODEL, draw(st.sampled_from((A100, A6000))))
        made = pod.obj
        meta = msgspec.structs.replace(made.metadata, namespace=draw(st.sampled_from(NAMESPACES)))
        if draw(st.integers(0, 9)) == 0:
            meta = msgspec.structs.replace(meta, creation_timestamp=None)
        found.append(msgspec.structs.replace(made, metadata=meta))
    return found


def a_snapshot(bookings: Sequence[Booking], pods: Sequence[Pod]) -> StatusSnapshot:
    cache = ClusterCache(CLOCK)
    cache.of(NODES).replace(
        [
            a_node("n0", *(a100(index) for index in range(8))),
            a_node("n1", *(a6000(index, node="n1") for index in range(8))),
        ]
    )
    for booking in bookings:
        cache.of(BOOKINGS).upsert(booking)
    for pod in pods:
        cache.of(PODS).upsert(pod)
    return take(cache, CLOCK, EvictionSettings())


def left(booking: Booking) -> Booking:
    """The booking with one GPU fewer for each pod that ends with it (``status.ending``)."""
    count = booking.spec.count - len(booking.status.ending or ())
    return msgspec.structs.replace(booking, spec=msgspec.structs.replace(booking.spec, count=count))


def one_by_one(bookings: Sequence[Booking], snapshot: StatusSnapshot) -> set[tuple[str, str]]:
    """Booking and uid of each pod that it covered at its last instant, by asking each pair of them."""
    return {
        (booking.name, uid)
        for booking in bookings
        if booking.spec.start < booking.spec.end <= NOW
        for uid, by in covered_at(
            booking.spec.end - timedelta(microseconds=1),
            left(booking),
            bookings=bookings,
            pods=snapshot.pods.values(),
            views=snapshot.node_snapshots.views,
        ).items()
        if by.name == booking.name
    }


def together(bookings: Sequence[Booking], snapshot: StatusSnapshot) -> list[tuple[str, str]]:
    found = covered_to_the_end(
        bookings, snapshot.pods.values(), snapshot.node_snapshots.views, now=NOW, left=left
    )
    return [(booking.name, uid) for booking, uid in found]


@given(a_users_bookings(), a_users_pods())
def test_many_bookings_together_get_the_same_answers_as_one_by_one(
    bookings: list[Booking], pods: list[Pod]
) -> None:
    snapshot = a_snapshot(bookings, pods)
    found = together(bookings, snapshot)
    assert len(found) == len(set(found))
    assert set(found) == one_by_one(bookings, snapshot)


@given(a_users_bookings(), a_users_pods())
def test_the_expired_pods_are_those_that_a_booking_covered_to_its_end(
    bookings: list[Booking], pods: list[Pod]
) -> None:
    snapshot = a_snapshot(bookings, pods)
    lost = {uid for _, uid in one_by_one(bookings, snapshot)}
    unannotated = [
        pod
        for pod in snapshot.pods.values()
        if pod.metadata.uid not in snapshot.cover and pod.metadata.annotation(names.BOOKING) is None
    ]
    classes = Classes(snapshot)
    for pod in unannotated:
        expected = "expired" if pod.metadata.uid in lost else "opportunistic"
        assert classes.of(pod, None) == expected


def a_pod_of(name: str, *, gpus: int, age: int, annotated: str | None = None) -> Pod:
    pod = a_pod(name).of("alice").created(NOW - timedelta(hours=age)).asks(gpus)
    return (pod.with_annotation(names.BOOKING, annotated) if annotated else pod).obj


def a_past(name: str, *, count: int, hours: tuple[int, int]) -> Booking:
    begun, over = (NOW - timedelta(hours=ago) for ago in hours)
    return a_booking(name, count=count, start=begun, end=over)


def test_a_pod_with_no_room_left_in_the_booking_is_skipped_for_a_smaller_one() -> None:
    booking = a_past("b0", count=3, hours=(2, 1))
    pods = [
        a_pod_of("old", gpus=2, age=9),
        a_pod_of("large", gpus=2, age=8),
        a_pod_of("small", gpus=1, age=7),
    ]
    assert sorted(together([booking], a_snapshot([booking], pods))) == [
        ("b0", "uid-old"),
        ("b0", "uid-small"),
    ]


def test_a_pod_with_a_booking_written_on_it_keeps_it_however_many_pods_are_older() -> None:
    booking = a_past("b0", count=1, hours=(2, 1))
    older = [a_pod_of(f"p{number}", gpus=1, age=9) for number in range(5)]
    annotated = a_pod_of("late", gpus=1, age=3, annotated="b0")
    assert together([booking], a_snapshot([booking], [*older, annotated])) == [("b0", "uid-late")]


# --- one booking, one instant ------------------------------------------------------------------------


def covered(
    booking: Booking, *pods: Pod, others: Sequence[Booking] = (), at: datetime | None = None
) -> set[str]:
    """Names of the pods that the booking covered at an instant, by default its last."""
    bookings = [booking, *others]
    snapshot = a_snapshot(bookings, pods)
    found = covered_at(
        at or booking.spec.end - timedelta(microseconds=1),
        booking,
        bookings=bookings,
        pods=snapshot.pods.values(),
        views=snapshot.node_snapshots.views,
    )
    return {uid.removeprefix("uid-") for uid, by in found.items() if by.name == booking.name}


HOUR = timedelta(hours=1)
PAST = a_past("b0", count=2, hours=(3, 1))
"""Two A100s, from three hours ago until an hour ago."""


@pytest.mark.parametrize(
    ("created", "is_covered"),
    [
        (PAST.spec.start - 9 * HOUR, True),
        (PAST.spec.end - 2 * SECOND, True),
        (PAST.spec.end - SECOND, True),
        (PAST.spec.end, False),
        (PAST.spec.end + SECOND, False),
    ],
    ids=["before its start", "earlier", "in its last second", "at its end", "later"],
)
def test_a_pod_was_covered_if_it_is_certainly_older_than_the_end(
    created: datetime, *, is_covered: bool
) -> None:
    """An instant of creation is written in whole seconds: up to a second later it may have been."""
    pod = a_pod("p").of("alice").created(created).asks(1).obj
    assert covered(PAST, pod) == ({"p"} if is_covered else set())
    assert together([PAST], a_snapshot([PAST], [pod])) == [("b0", "uid-p")] * is_covered


def test_pods_of_others_in_other_namespaces_and_with_other_gpus_were_not_covered() -> None:
    old = NOW - 9 * HOUR
    mine = a_pod("mine").of("alice").created(old).asks(1)
    his = a_pod("his").of("bob").created(old).asks(1)
    unowned = a_pod("unowned").created(old).asks(1)
    picky = a_pod("picky").of("alice").created(old).asks(1).with_annotation(names.MODEL, A6000)
    holds = a_pod("holds").of("alice").created(old).asks(1).on("n1", {"main": ("GPU-n1-0",)})
    everybody = [each.obj for each in (mine, his, unowned, picky, holds)]
    assert covered(PAST, *everybody) == {"mine"}
    spec = msgspec.structs.replace(PAST.spec, namespace="vision")
    elsewhere = msgspec.structs.replace(PAST, spec=spec)
    assert covered(elsewhere, *everybody) == set()
    there = msgspec.structs.replace(mine.obj.metadata, namespace="vision")
    assert covered(elsewhere, msgspec.structs.replace(mine.obj, metadata=there)) == {"mine"}


def test_the_given_version_of_a_booking_counts_and_not_the_cached_one() -> None:
    pods = [a_pod_of(f"p{number}", gpus=1, age=9 - number) for number in range(3)]
    known = a_past("b0", count=3, hours=(3, 1))
    snapshot = a_snapshot([known], pods)
    found = covered_at(
        PAST.spec.end - timedelta(microseconds=1),
        PAST,
        bookings=[known],
        pods=snapshot.pods.values(),
        views=snapshot.node_snapshots.views,
    )
    assert set(found) == {"uid-p0", "uid-p1"}


@pytest.mark.parametrize(
    ("hours", "is_over"), [((3, 1), True), ((3, 0), True), ((3, -1), False), ((1, 3), False), ((1, 1), False)]
)
def test_only_bookings_that_are_over_and_were_not_empty_are_reported(
    hours: tuple[int, int], *, is_over: bool
) -> None:
    booking = a_past("b0", count=1, hours=hours)
    pod = a_pod_of("p", gpus=1, age=9)
    assert together([booking], a_snapshot([booking], [pod])) == [("b0", "uid-p")] * is_over
