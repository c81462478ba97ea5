from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from booking.durations import Duration
from booking.server import grid

STOCKHOLM = ZoneInfo("Europe/Stockholm")
DAY, HOUR, SIX = Duration(days=1), Duration(seconds=3600), Duration(seconds=6 * 3600)
SECOND = timedelta(seconds=1)
STEPS = st.sampled_from([DAY, HOUR, SIX, Duration(seconds=900)])
ZONES = st.sampled_from(
    ["UTC", "Europe/Stockholm", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut"]
).map(ZoneInfo)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
INSTANTS = st.integers(0, 366 * 86400).map(lambda seconds: BEGIN + timedelta(seconds=seconds))
TURNS = st.sampled_from([datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 10, 25, 1, tzinfo=UTC)])
NEAR_TURNS = st.builds(
    lambda turn, seconds: turn + timedelta(seconds=seconds), TURNS, st.integers(-90_000, 90_000)
)


def test_a_step_is_counted_from_midnight_on_the_sites_clocks() -> None:
    midnight = datetime(2026, 3, 9, 23, tzinfo=UTC)
    assert grid.is_on(midnight, DAY, STOCKHOLM)
    assert not grid.is_on(midnight, DAY, ZoneInfo("UTC"))
    assert grid.is_on(midnight + timedelta(hours=6), SIX, STOCKHOLM)
    assert not grid.is_on(midnight + timedelta(microseconds=1), DAY, STOCKHOLM)


def test_the_next_midnight_is_an_hour_nearer_or_farther_when_the_clocks_change() -> None:
    for midnight, hours in (
        (datetime(2026, 3, 28, 23, tzinfo=UTC), 23),
        (datetime(2026, 10, 24, 22, tzinfo=UTC), 25),
    ):
        assert grid.at_or_after(midnight + SECOND, DAY, STOCKHOLM) == midnight + timedelta(hours=hours)


def test_an_hour_that_comes_twice_has_two_steps() -> None:
    first = datetime(2026, 10, 25, 0, tzinfo=UTC)
    assert grid.at_or_after(first + SECOND, HOUR, STOCKHOLM) == first + timedelta(hours=1)


def test_lengths_are_rounded_to_whole_steps() -> None:
    assert grid.rounded_up(Duration(0, 3601), HOUR) == Duration(0, 7200)
    assert grid.rounded_up(Duration(2, 1), DAY) == Duration(3)
    assert grid.rounded_down(Duration(2, 4000), HOUR) == Duration(2, 3600)
    assert grid.is_multiple(Duration(5), HOUR)
    assert not grid.is_multiple(Duration(5, 60), HOUR)


@given(INSTANTS | NEAR_TURNS, STEPS, ZONES)
def test_the_next_step_is_the_first_from_the_instant_on(
    instant: datetime, step: Duration, zone: ZoneInfo
) -> None:
    found = grid.at_or_after(instant, step, zone)
    assert found >= instant
    assert grid.is_on(found, step, zone)
    moment = instant + timedelta(seconds=-int(instant.timestamp()) % 900)
    while moment < found:
        assert not grid.is_on(moment, step, zone)
        moment += timedelta(seconds=900)
