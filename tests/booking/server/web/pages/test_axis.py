"""Where an instant lies between the edges of the chart."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from booking.server.web.pages.axis import Axis
from booking.server.web.pages.site_clock import SiteClock

WALL = SiteClock(ZoneInfo("Europe/Stockholm"), datetime(2026, 3, 20, 9, 0, tzinfo=UTC))
AXIS = Axis(WALL.midnights(WALL.now, 28))


def test_all_days_are_equally_wide_even_where_clocks_change() -> None:
    assert [AXIS.at(midnight) for midnight in AXIS.midnights] == list(range(29))
    sunday = AXIS.midnights[9]
    assert AXIS.midnights[10] - sunday == timedelta(hours=23)
    assert AXIS.at(sunday + timedelta(hours=11.5)) == 9.5


def test_an_instant_outside_is_drawn_at_the_edge() -> None:
    assert AXIS.at(AXIS.start - timedelta(days=3)) == 0
    assert AXIS.at(AXIS.end + timedelta(days=3)) == 28
    assert not AXIS.shows(AXIS.end)
    assert AXIS.shows(AXIS.start)


@given(st.integers(0, 28 * 86400 - 3600), st.integers(0, 28 * 86400 - 3600))
def test_a_later_instant_is_further_right(one: int, other: int) -> None:
    first, second = (AXIS.start + timedelta(seconds=each) for each in sorted((one, other)))
    assert AXIS.at(first) <= AXIS.at(second)
