"""A request is not repeated before its effect can be seen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.controller.reclaimer.recent_requests import AGAIN_AFTER, RecentRequests
from cluster.fake.clock import FakeClock


@pytest.mark.parametrize(
    ("waited", "is_due"),
    [(0.0, False), (AGAIN_AFTER - 0.01, False), (AGAIN_AFTER, True), (10 * AGAIN_AFTER, True)],
    ids=["at once", "just before", "just then", "long after"],
)
def test_a_request_is_due_again_after_a_second(waited: float, *, is_due: bool) -> None:
    clock = FakeClock()
    recent = RecentRequests(clock)
    assert recent.is_due("v")
    clock.advance(waited)
    assert recent.is_due("v") is is_due


def test_a_request_that_was_not_due_does_not_count_as_sent() -> None:
    clock = FakeClock()
    recent = RecentRequests(clock, again_after=10)
    assert recent.is_due("v")
    clock.advance(9)
    assert not recent.is_due("v")
    clock.advance(1)
    assert recent.is_due("v")


def test_only_a_forgotten_request_may_be_sent_again_at_once() -> None:
    recent = RecentRequests(FakeClock())
    assert recent.is_due("v")
    assert recent.is_due("w")
    recent.forget("v")
    recent.forget("unknown")
    assert recent.is_due("v")
    assert not recent.is_due("w")


@given(steps=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 15)), max_size=40))
def test_a_request_is_due_exactly_when_none_of_its_key_was_sent_within_the_period(
    steps: list[tuple[str, int]],
) -> None:
    clock = FakeClock()
    recent = RecentRequests(clock, again_after=10)
    sent: dict[str, float] = {}
    for key, wait in steps:
        now = clock.monotonic()
        expected = key not in sent or now - sent[key] >= 10
        assert recent.is_due(key) is expected
        if expected:
            sent[key] = now
        clock.advance(wait)
