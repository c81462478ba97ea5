"""The watcher's own computation of the booked pods agrees with the product's: one rule, read twice."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.cache import ClusterCache
from cluster.fake.clock import FakeClock
from cluster.kube.resources import BOOKINGS, NODES, PODS
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod
from tests.fakes.objects import A100, A6000, EPOCH, a100, a6000, a_booking, a_node, a_pod
from tests.laws.cover import cover
from tests.laws.state import State

USERS = st.sampled_from(["alice", "bob"])
MODELS = st.sampled_from([A100, A6000])
HOURS = st.integers(-3, 3)
NODE = a_node("n0", *(a100(i) for i in range(6)), *(a6000(i) for i in range(6, 12)))


@st.composite
def bookings(draw: st.DrawFn) -> list[Booking]:
    count = draw(st.integers(0, 4))
    return [
        a_booking(
            f"b-{n}",
            user=draw(USERS),
            model=draw(MODELS),
            count=draw(st.integers(1, 4)),
            topology=draw(st.sampled_from(["any", "single-node"])),
            start=(start := EPOCH + timedelta(hours=draw(HOURS))),
            end=start + timedelta(hours=draw(st.integers(1, 4))),
            namespace=draw(st.sampled_from([None, None, "default", "elsewhere"])),
        )
        for n in range(count)
    ]


@st.composite
def pods(draw: st.DrawFn) -> list[Pod]:
    made: list[Pod] = []
    for n, uid in enumerate(draw(st.permutations(range(draw(st.integers(0, 8)))))):
        gpus = draw(st.integers(0, 3))
        pod = (
            replace(a_pod(f"p{n}"), uid=f"uid-{uid}")
            .of(draw(USERS))
            .asks(gpus)
            .created(EPOCH - timedelta(minutes=draw(st.integers(0, 5))))
        )
        if draw(st.booleans()):
            pod = pod.wants(draw(MODELS))
        if draw(st.booleans()):
            pod = pod.with_annotation(names.BOOKING, f"b-{draw(st.integers(0, 3))}")
        if gpus and draw(st.booleans()):
            first = draw(st.integers(0, 11 - gpus))
            pod = pod.on("n0", {"main": tuple(f"GPU-n0-{i}" for i in range(first, first + gpus))})
        if draw(st.integers(0, 5)) == 0:
            pod = draw(st.sampled_from([pod.terminating(), pod.ended(), pod.asks(1, container="more")]))
        made.append(pod.obj)
    return made


def test_the_first_by_name_of_two_pods_of_one_instant_is_booked_whatever_their_uids() -> None:
    first = replace(a_pod("p0").of("alice").asks(1).created(EPOCH), uid="uid-b").obj
    second = replace(a_pod("p1").of("alice").asks(1).created(EPOCH), uid="uid-a").obj
    booking = a_booking("b-0", user="alice", model=A100, count=1, start=EPOCH)
    state = State().knowing("pods", [second, first], EPOCH).knowing("bookings", [booking], EPOCH)
    assert cover(state, EPOCH) == {"uid-b": booking}


@given(bookings(), pods(), HOURS)
def test_the_laws_and_the_cluster_cache_agree_on_which_pods_are_booked(
    booked: list[Booking], there: list[Pod], hours: int
) -> None:
    now = EPOCH + timedelta(hours=hours)
    cache = ClusterCache(FakeClock(now))
    cache.of(NODES).replace([NODE])
    cache.of(PODS).replace(there, "1")
    cache.of(BOOKINGS).replace(booked)
    state = State().knowing("nodes", [NODE], now).knowing("pods", there, now).knowing("bookings", booked, now)
    assert cover(state, now) == cache.cover(now)
