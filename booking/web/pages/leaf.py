"""Which weeks are shown, and the heads of their days. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from booking.web.pages.axis import Axis
from booking.web.pages.wall import Wall

DAYS: Final = 28
_FARTHEST: Final = timedelta(days=366)
"""How far ahead people may turn the leaves."""


@dataclass(frozen=True)
class Head:
    """What stands above a column."""

    weekday: str
    date: int
    month: str
    """Empty, unless a month begins with it."""
    looks: str


@dataclass(frozen=True)
class Leaf:
    """Which weeks are shown, to whom."""

    axis: Axis
    wall: Wall
    first: datetime | None
    """The day that was asked for; None: today."""

    @classmethod
    def of(cls, wall: Wall, first: datetime | None) -> "Leaf":
        """The weeks from a day on, which lies neither before today nor too far ahead."""
        begin = min(max(first or wall.now, wall.now), wall.now + 2 * _FARTHEST)
        return cls(Axis(wall.midnights(begin, DAYS)), wall, begin if begin > wall.now else None)

    @property
    def first_at(self) -> datetime:
        """The first instant that is shown and not past."""
        return max(self.wall.now, self.axis.start)

    @property
    def first_word(self) -> str:
        """It as people read it, after a number: ``now``, ``on Fri 1 May``."""
        return "now" if self.first is None else f"on {self.wall.day(self.first_at)}"

    @property
    def now_at(self) -> float | None:
        """Where now is."""
        return self.axis.at(self.wall.now) if self.axis.shows(self.wall.now) else None

    def heads(self) -> tuple[Head, ...]:
        """Above the columns."""
        return tuple(
            Head(
                weekday=self.wall.weekday(day)[:2],
                date=self.wall.date(day),
                month=self.wall.month(day) if self.wall.date(day) == 1 or not place else "",
                looks=self._looks(day),
            )
            for place, day in enumerate(self.axis.midnights[:-1])
        )

    def _looks(self, day: datetime) -> str:
        looks = (
            "weekend" if self.wall.is_weekend(day) else "monday" if self.wall.weekday(day) == "Mon" else ""
        )
        return f"{looks} today".strip() if self.wall.day(day) == self.wall.day(self.wall.now) else looks

    def query(self) -> dict[str, str]:
        """What an address needs to show this leaf."""
        return {} if self.first is None else {"from": self._date(self.first)}

    def turned(self, days: int) -> str | None:
        """The address of the leaf so many days away; None where there is none."""
        today = self.wall.midnights(self.wall.now, 1)[0]
        if (days < 0 and self.axis.start <= today) or self.axis.start > self.wall.now + _FARTHEST:
            return None
        found = self.axis.start.astimezone(self.wall.zone) + timedelta(days=days)
        return "/" if found <= today else f"/?from={self._date(found)}"

    def _date(self, instant: datetime) -> str:
        return f"{instant.astimezone(self.wall.zone):%Y-%m-%d}"
