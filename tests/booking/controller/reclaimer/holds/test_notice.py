"""The notice: its content, and that another process can read it."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.controller.reclaimer.holds.notices import message, notice_until
from tests.fakes.objects import EPOCH, a_pod

ALICES = a_pod("a").of("alice").asks(1).obj
OTHERS = a_pod("c").of("carol").asks(1).obj


def test_a_notice_names_the_booked_pod_and_the_instant() -> None:
    assert message(ALICES, EPOCH) == (
        "This pod is evicted at 2026-11-23T09:00:00Z or soon after:"
        " its GPUs are needed by the booked pod default/a."
    )


@given(microseconds=st.integers(0, 10**12))
def test_the_instant_in_a_notice_is_never_early_and_at_most_a_second_late(microseconds: int) -> None:
    until = EPOCH + timedelta(microseconds=microseconds)
    parsed = notice_until(message(ALICES, until), ALICES)
    assert parsed is not None
    assert timedelta(0) <= parsed - until < timedelta(seconds=1)


@given(text=st.text())
def test_other_texts_are_not_read_as_a_notice(text: str) -> None:
    assert notice_until(text, ALICES) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [("23T", "23 "), ("00Z", "00+01:00"), ("2026", "026"), ("default/a.", "default/a. Not really.")],
)
def test_an_altered_notice_is_not_read_as_one(old: str, new: str) -> None:
    assert notice_until(message(ALICES, EPOCH).replace(old, new), ALICES) is None


def test_a_notice_for_another_pod_is_not_read_as_one() -> None:
    assert notice_until(message(OTHERS, EPOCH), ALICES) is None


def test_an_instant_of_any_zone_is_written_in_utc() -> None:
    there = datetime.fromisoformat("2026-11-23T10:00:00+01:00")
    assert message(ALICES, there) == message(ALICES, EPOCH)
