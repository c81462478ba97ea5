"""What people type for times means what they mean."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.cli.time_parsing import UnclearTimeError, instant_of, length_of
from booking.durations import Duration

STOCKHOLM = ZoneInfo("Europe/Stockholm")
NOW = datetime(2026, 11, 24, 14, 30, 15, 500, tzinfo=UTC)  # a Tuesday, 15:30 in Stockholm


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "2026-11-24T14:30:15+00:00"),
        ("+2h", "2026-11-24T16:30:15+00:00"),
        ("in 1d12h", "2026-11-26T02:30:15+00:00"),
        ("16:00", "2026-11-24T15:00:00+00:00"),
        ("09:00", "2026-11-25T08:00:00+00:00"),
        ("today", "2026-11-23T23:00:00+00:00"),
        ("today 17:00", "2026-11-24T16:00:00+00:00"),
        ("Tomorrow 9", "2026-11-25T08:00:00+00:00"),
        ("mon 09:00", "2026-11-30T08:00:00+00:00"),
        ("tuesday 16:00", "2026-11-24T15:00:00+00:00"),
        ("tuesday 15:00", "2026-12-01T14:00:00+00:00"),
        ("fri", "2026-11-26T23:00:00+00:00"),
        ("2026-12-01", "2026-11-30T23:00:00+00:00"),
        ("2026-12-01 09:00", "2026-12-01T08:00:00+00:00"),
        ("2026-12-01 9", "2026-12-01T08:00:00+00:00"),
        ("2026-12-01 9:30", "2026-12-01T08:30:00+00:00"),
        ("2026-07-01T09:00", "2026-07-01T07:00:00+00:00"),
        ("2026-12-01T09:00:00Z", "2026-12-01T09:00:00+00:00"),
        ("2026-12-01T09:00+05:00", "2026-12-01T04:00:00+00:00"),
        # Shown twice: the first of the two.
        ("2026-10-25 02:30", "2026-10-25T00:30:00+00:00"),
    ],
)
def test_a_time_means_what_people_mean_by_it(text: str, expected: str) -> None:
    found = instant_of(text, NOW, STOCKHOLM)
    assert found.isoformat() == expected
    assert found.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "text", ["", "soon", "mon tue", "25:00", "mo", "2026-13-01", "+", "+soon", "9:5:3:1", "1 2 3"]
)
def test_a_meaningless_time_is_refused_with_a_message(text: str) -> None:
    with pytest.raises(UnclearTimeError):
        instant_of(text, NOW, STOCKHOLM)


def test_a_time_that_the_clocks_skip_is_refused() -> None:
    with pytest.raises(UnclearTimeError, match="Europe/Stockholm never show 02:30 on 2027-03-28"):
        instant_of("2027-03-28 02:30", NOW, STOCKHOLM)


def test_a_time_beyond_the_calendar_is_refused() -> None:
    with pytest.raises(UnclearTimeError, match="beyond the calendar"):
        instant_of("0001-01-01 00:30", NOW, STOCKHOLM)


def test_days_are_calendar_days_and_hours_elapse() -> None:
    assert length_of("2d") == Duration(days=2)
    assert length_of("P2D") == Duration(days=2)
    assert length_of("36h") == Duration(seconds=36 * 3600)
    with pytest.raises(UnclearTimeError):
        length_of("a while")


@given(st.text(max_size=20))
def test_any_input_is_an_instant_or_is_refused_with_a_message(text: str) -> None:
    with suppress(UnclearTimeError):
        assert instant_of(text, NOW, STOCKHOLM).utcoffset() == timedelta(0)
