"""Soft reservations by themselves: whose devices are reserved where, and until when."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.decide.ledger import Holding
from cluster.fake.clock import FakeClock
from extender.state.soft_reservations import SECONDS, Holdings, SoftReservations

A, B = (Holding("GPU-a"),), (Holding("GPU-b"),)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def soft(clock: FakeClock) -> SoftReservations:
    return SoftReservations(clock)


def test_a_reservation_lasts_up_to_but_not_at_its_end(soft: SoftReservations, clock: FakeClock) -> None:
    soft.reserve("p", "n0", A)
    soft.reserve("q", "n1", B, seconds=3)
    clock.advance(SECONDS - 0.01)
    assert soft.of_others("x") == {"n0": A, "n1": B}
    clock.advance(0.01)
    assert soft.of_others("x") == {"n1": B}
    clock.advance(3 - SECONDS)
    assert soft.of_others("x") == {}


def test_a_reservation_may_be_released_twice(soft: SoftReservations) -> None:
    soft.reserve("p", "n0", A)
    soft.reserve("q", "n0", B)
    for _ in range(2):
        soft.release("p")
        assert soft.of_others("x") == {"n0": B}


STEP = st.tuples(
    st.sampled_from(("reserve", "release", "wait")),
    st.sampled_from(("p", "q", "r")),
    st.sampled_from(("n0", "n1")),
    st.sampled_from((A, B)),
    st.sampled_from((0.25, 0.5, 2.0)),
)


@given(st.lists(STEP, max_size=20))
def test_other_pods_see_every_reservation_that_is_neither_released_nor_over(
    steps: list[tuple[str, str, str, Holdings, float]],
) -> None:
    clock = FakeClock()
    soft, known = SoftReservations(clock), dict[str, tuple[str, Holdings, float]]()
    for what, uid, node, devices, seconds in steps:
        if what == "reserve":
            soft.reserve(uid, node, devices, seconds)
            known[uid] = (node, devices, clock.monotonic() + seconds)
        elif what == "release":
            soft.release(uid)
            known.pop(uid, None)
        else:
            clock.advance(seconds)
        expected: dict[str, Holdings] = {}
        for other, (where, some, expires) in known.items():
            if other != "p" and expires > clock.monotonic():
                expected[where] = (*expected.get(where, ()), *some)
        found = soft.of_others("p")
        assert {node: Counter(some) for node, some in found.items()} == {
            node: Counter(some) for node, some in expected.items()
        }
