"""Instants in the site's local time, and back. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from booking import durations, wording

_FIELD: Final = "%Y-%m-%dT%H:%M"
"""The format of a browser's field for date and time."""
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_WEEKEND: Final = 5
_FIRST_YEAR: Final = 2000
_LAST_YEAR: Final = 9990


class BadTimeError(ValueError):
    """A text that is not a time on the site's clocks; the message says why."""


@dataclass(frozen=True)
class SiteClock:
    """The site's clock at one instant."""

    zone: tzinfo
    """From the IANA database: its text is its name."""
    now: datetime

    @property
    def name(self) -> str:
        """The zone's name for people: ``Europe/Stockholm (CET)``."""
        short = self.now.astimezone(self.zone).tzname()
        return str(self.zone) if short in {None, str(self.zone)} else f"{self.zone} ({short})"

    def moment(self, instant: datetime) -> str:
        """``Wed 25 Nov 09:00``; with the year if it is not the present one."""
        local = instant.astimezone(self.zone)
        clock = f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"
        return f"{self.day(instant)} {clock}"

    def day(self, instant: datetime) -> str:
        """``Wed 25 Nov``; with the year if it is not the present one."""
        local = instant.astimezone(self.zone)
        year = "" if local.year == self.now.astimezone(self.zone).year else f" {local.year}"
        return f"{_DAYS[local.weekday()]} {local.day} {_MONTHS[local.month - 1]}{year}"

    def weekday(self, instant: datetime) -> str:
        """The day of the week: ``Wed``."""
        return _DAYS[instant.astimezone(self.zone).weekday()]

    def month(self, instant: datetime) -> str:
        """The month: ``Nov``."""
        return _MONTHS[instant.astimezone(self.zone).month - 1]

    def date(self, instant: datetime) -> int:
        """The day's number in its month."""
        return instant.astimezone(self.zone).day

    def is_weekend(self, instant: datetime) -> bool:
        """Whether it is Saturday or Sunday."""
        return instant.astimezone(self.zone).weekday() >= _WEEKEND

    def field(self, instant: datetime) -> str:
        """The value for a form's field; with seconds if there are any, which the field must then allow."""
        local = instant.astimezone(self.zone)
        return f"{local:{_FIELD}:%S}" if local.second else f"{local:{_FIELD}}"

    def read(self, text: str) -> datetime:
        """The instant in a form's field, in UTC; of a time that the clocks show twice, the first.

        Raises:
            BadTimeError: it is not an instant.
        """
        try:
            wall = datetime.fromisoformat(text.strip())
        except ValueError as error:
            raise BadTimeError(
                f"{wording.quoted(text)} is not a date and time: write it like 2026-03-02 09:00."
            ) from error
        if wall.tzinfo is not None:
            raise BadTimeError(f"Leave the offset out: times here are those of {self.zone}.")
        if not _FIRST_YEAR <= wall.year <= _LAST_YEAR:
            raise BadTimeError(f"The year {wall.year} is outside of what can be booked.")
        instant = durations.resolved(wall.replace(microsecond=0), self.zone)
        if instant.astimezone(self.zone).replace(tzinfo=None) != wall.replace(microsecond=0):
            raise BadTimeError(
                f"There is no {wall:%H:%M} on {self.day(instant)}: the clocks of {self.zone} skip it."
            )
        return instant

    def midnights(self, first: datetime, count: int) -> tuple[datetime, ...]:
        """The beginnings of so many days and the end of the last, from the day of an instant on; in UTC."""
        today = first.astimezone(self.zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        return tuple(durations.resolved(today + timedelta(days=each), self.zone) for each in range(count + 1))

    def length(self, start: datetime, end: datetime) -> str:
        """How long it is, in words: ``2 days 3 hours``."""
        return durations.words(durations.between(start, end, self.zone))

    def localized(self, message: str) -> str:
        """A message with its instants (``wording.instant``) in local time."""
        return wording.with_local_times(message, self.moment)

    def until(self, instant: datetime) -> str:
        """How long it is until then, coarsely: ``1 day 4 h``, ``25 min``; less than a minute is ``now``."""
        return coarse(instant - self.now)


def coarse(length: timedelta) -> str:
    """A length in its two largest units; ``static/page.js`` counts down with the same words."""
    minutes = int(length.total_seconds()) // 60
    days, hours = minutes // 1440, minutes // 60 % 24
    if minutes < 1:
        return "less than a minute"
    if days:
        return wording.counted(days, "day") + (f" {hours} h" if hours else "")
    if hours:
        return f"{hours} h" + (f" {minutes % 60} min" if minutes % 60 else "")
    return f"{minutes} min"


def utc_seconds(instant: datetime) -> str:
    """An instant for programs: ``2026-03-02T08:00:00Z``."""
    return f"{instant.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
