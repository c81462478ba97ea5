"""What is booked beyond what there is says when."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from booking.server.web.pages.calendar_range import CalendarRange
from booking.server.web.pages.load import Piece
from booking.server.web.pages.load_segments import steps_on
from booking.server.web.pages.short_days import short_text
from booking.server.web.pages.site_clock import SiteClock

ZONE = ZoneInfo("Europe/Stockholm")
NOW = datetime(2026, 3, 2, 10, tzinfo=ZONE)


def piece(day: int, days: int, gpus: int) -> Piece:
    start = datetime(2026, 3, day, tzinfo=ZONE)
    return Piece("others", gpus, start, start + timedelta(days=days))


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([piece(3, 5, 4)], ""),
        ([piece(21, 1, 6)], "2 short on Sat 21 Mar"),
        ([piece(20, 3, 4), piece(21, 2, 10)], "10 short on Sat 21 Mar and Sun 22 Mar"),
        ([piece(3, 3, 5)], "1 short from Tue 3 Mar to Thu 5 Mar"),
        ([piece(3, 1, 5), piece(6, 1, 9)], "up to 5 short on Tue 3 Mar and on Fri 6 Mar"),
        (
            [piece(day, 1, 5) for day in (3, 5, 7, 9)],
            "1 short on Tue 3 Mar, on Thu 5 Mar, on Sat 7 Mar and later",
        ),
    ],
)
def test_the_days_are_named_on_which_gpus_are_missing(pieces: list[Piece], expected: str) -> None:
    range_ = CalendarRange.of(SiteClock(ZONE, NOW), None)
    assert short_text(steps_on(pieces, range_, 4), range_) == expected
