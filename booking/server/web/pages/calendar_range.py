"""Which weeks are shown, and the headings of their days. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from booking.server.web.pages.axis import Axis
from booking.server.web.pages.site_clock import SiteClock

DAYS: Final = 28
_FARTHEST: Final = timedelta(days=366)
"""How far ahead people can page."""


@dataclass(frozen=True)
class Head:
    """The heading of a column."""

    weekday: str
    date: int
    month: str
    """The month's name, if it begins with this day; else empty."""
    css_class: str


@dataclass(frozen=True)
class CalendarRange:
    """The shown weeks, in a site's zone."""

    axis: Axis
    clock: SiteClock
    first: datetime | None
    """The requested first day; None: today."""

    @classmethod
    def of(cls, clock: SiteClock, first: datetime | None) -> "CalendarRange":
        """The weeks from a day on, which is moved to today or to the last allowed day if it lies outside."""
        begin = min(max(first or clock.now, clock.now), clock.now + 2 * _FARTHEST)
        return cls(Axis(clock.midnights(begin, DAYS)), clock, begin if begin > clock.now else None)

    @property
    def first_at(self) -> datetime:
        """The first shown instant that is not past."""
        return max(self.clock.now, self.axis.start)

    @property
    def first_word(self) -> str:
        """The first instant as people read it after a number: ``now``, ``on Fri 1 May``."""
        return "now" if self.first is None else f"on {self.clock.day(self.first_at)}"

    @property
    def now_at(self) -> float | None:
        """The position of now on the axis; None if it is not shown."""
        return self.axis.at(self.clock.now) if self.axis.shows(self.clock.now) else None

    def heads(self) -> tuple[Head, ...]:
        """The headings of the columns, one for each day."""
        return tuple(
            Head(
                weekday=self.clock.weekday(day)[:2],
                date=self.clock.date(day),
                month=self.clock.month(day) if self.clock.date(day) == 1 or not place else "",
                css_class=self._css_class(day),
            )
            for place, day in enumerate(self.axis.midnights[:-1])
        )

    def _css_class(self, day: datetime) -> str:
        classes = (
            "weekend" if self.clock.is_weekend(day) else "monday" if self.clock.weekday(day) == "Mon" else ""
        )
        return (
            f"{classes} today".strip() if self.clock.day(day) == self.clock.day(self.clock.now) else classes
        )

    def query(self) -> dict[str, str]:
        """The query parameters that show these weeks."""
        return {} if self.first is None else {"from": self._date(self.first)}

    def turned(self, days: int) -> str | None:
        """The address of the weeks so many days away; None if there is none."""
        today = self.clock.midnights(self.clock.now, 1)[0]
        if (days < 0 and self.axis.start <= today) or self.axis.start > self.clock.now + _FARTHEST:
            return None
        found = self.axis.start.astimezone(self.clock.zone) + timedelta(days=days)
        return "/" if found <= today else f"/?from={self._date(found)}"

    def _date(self, instant: datetime) -> str:
        return f"{instant.astimezone(self.clock.zone):%Y-%m-%d}"
