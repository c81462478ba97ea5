"""Instants as the site's clocks show them, and back."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking import wording
from booking.server.web.pages.site_clock import BadTimeError, SiteClock, coarse

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
STOCKHOLM = SiteClock(ZoneInfo("Europe/Stockholm"), NOW)


def test_the_zone_is_named_with_its_current_abbreviation() -> None:
    assert STOCKHOLM.name == "Europe/Stockholm (CET)"
    assert SiteClock(ZoneInfo("UTC"), NOW).name == "UTC"


def test_a_moment_is_written_in_the_zone_and_with_the_year_if_it_is_another() -> None:
    assert STOCKHOLM.moment(NOW) == "Mon 2 Mar 10:00"
    assert STOCKHOLM.moment(datetime(2027, 7, 1, 8, 0, 7, tzinfo=UTC)) == "Thu 1 Jul 2027 10:00:07"


@given(st.integers(0, 100_000_000).map(lambda minutes: NOW + timedelta(minutes=minutes)))
def test_a_field_is_read_back_as_the_same_moment_except_in_the_repeated_hour(
    moment: datetime,
) -> None:
    read = STOCKHOLM.read(STOCKHOLM.field(moment))
    assert moment - read in {timedelta(0), timedelta(hours=1)}
    assert STOCKHOLM.field(read) == STOCKHOLM.field(moment)


def test_seconds_are_kept_where_there_are_any() -> None:
    moment = datetime(2026, 3, 2, 9, 0, 17, tzinfo=UTC)
    assert STOCKHOLM.field(moment) == "2026-03-02T10:00:17"
    assert STOCKHOLM.read("2026-03-02T10:00:17") == moment


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a date and time"),
        ("tomorrow", "not a date and time"),
        ("2026-13-01T00:00", "not a date and time"),
        ("<b>", "not a date and time"),
        ("2026-03-02T10:00Z", "offset"),
        ("2026-03-29T02:30", "skip it"),
        ("9999-01-01T00:00", "9999"),
        ("0001-01-01T00:00", "The year 1 "),
    ],
)
def test_an_invalid_local_time_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(BadTimeError, match=reason):
        STOCKHOLM.read(text)


def test_a_repeated_hour_is_read_as_the_first() -> None:
    assert STOCKHOLM.read("2026-10-25T02:30") == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)


def test_midnights_follow_the_clocks_through_a_change() -> None:
    midnights = STOCKHOLM.midnights(datetime(2026, 3, 28, 12, tzinfo=UTC), 3)
    assert [each.astimezone(STOCKHOLM.zone).hour for each in midnights] == [0, 0, 0, 0]
    assert midnights[2] - midnights[1] == timedelta(hours=23)


def test_instants_in_messages_are_written_in_the_zone() -> None:
    message = (
        f"From {wording.instant(NOW)} to {wording.instant(NOW + timedelta(seconds=5))}; version 2026-03-02."
    )
    assert STOCKHOLM.localized(message) == "From Mon 2 Mar 10:00 to Mon 2 Mar 10:00:05; version 2026-03-02."


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (timedelta(seconds=59), "less than a minute"),
        (timedelta(minutes=25, seconds=59), "25 min"),
        (timedelta(hours=2), "2 h"),
        (timedelta(hours=2, minutes=5), "2 h 5 min"),
        (timedelta(days=1), "1 day"),
        (timedelta(days=14, hours=13, minutes=59), "14 days 13 h"),
    ],
)
def test_a_countdown_is_written_in_two_units(length: timedelta, words: str) -> None:
    assert coarse(length) == words
