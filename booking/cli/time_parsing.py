"""Instants and lengths as people type them: ``mon 09:00``, ``tomorrow``, ``2026-11-24``, ``2d``. Pure.

Times without an offset are meant in a given zone; times that a clock change skips are refused.
"""

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from booking import durations
from booking.durations import Duration

_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CLOCK: Final = re.compile(r"(\d{1,2})(?::(\d{2}))?")
_SHORTEST_DAY_NAME: Final = 3

TIME: Final = "TIME"
LENGTH: Final = "LENGTH"
"""What the help calls words that are parsed here."""
HINT: Final = 'write for example "mon 09:00", "tomorrow", "2026-11-24 09:00", "+2h" or an RFC 3339 instant'


class UnclearTimeError(ValueError):
    """The text is ambiguous or no time at all; the error's text is a message for the user."""


def instant_of(text: str, now: datetime, zone: ZoneInfo) -> datetime:
    """The instant that the user means, in UTC.

    Args:
        text: as it was typed.
        now: aware.
        zone: for everything without an offset. A weekday is its next one that is still to come, today
            included; a day without a time begins at midnight; a time without a day is its next occurrence.

    Raises:
        UnclearTimeError: it is not an instant, or one that the clocks of the zone leave out.
    """
    words = " ".join(text.lower().split())
    if words == "now":
        return now.astimezone(UTC).replace(microsecond=0)
    if words.startswith(("+", "in ")):
        length = length_of(words.removeprefix("+").removeprefix("in "))
        return durations.after(now.astimezone(UTC).replace(microsecond=0), length, zone)
    full = _iso(text.strip(), zone)
    if full is not None:
        return full
    day, clock = _split(words)
    found = _of_day(day, clock, now.astimezone(zone), zone)
    if found is None:
        raise UnclearTimeError(f"{text!r} is not a time: {HINT}.")
    return found


def start_of(text: str, now: datetime, zone: ZoneInfo) -> datetime:
    """As ``instant_of``, for a time at which something starts: today means now, as its midnight is over.

    Raises:
        UnclearTimeError: as for ``instant_of``.
    """
    return instant_of("now" if text.strip().lower() == "today" else text, now, zone)


def length_of(text: str) -> Duration:
    """The length that the user means: ``2d`` is two calendar days, ``36h`` is elapsed time.

    Raises:
        UnclearTimeError: it is not a length.
    """
    try:
        return durations.read(text.strip())
    except durations.DurationError as error:
        raise UnclearTimeError(str(error)) from error


def _iso(text: str, zone: ZoneInfo) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    if found.tzinfo is not None:
        return _utc(found, text)
    return _local(found.date(), found.time(), zone)


def _split(words: str) -> tuple[str, str | None]:
    """Day and time; the day is empty if there is only a time."""
    day, _, clock = words.rpartition(" ")
    if _CLOCK.fullmatch(clock) and (day or ":" in clock):
        return day, clock
    return words, None


def _of_day(day: str, clock: str | None, here: datetime, zone: ZoneInfo) -> datetime | None:
    at = _clock(clock)
    if at is None or not (day or clock):
        return None
    if not day:
        today = _local(here.date(), at, zone)
        return today if today >= here else _local(here.date() + timedelta(days=1), at, zone)
    if day in {"today", "tomorrow"}:
        return _local(here.date() + timedelta(days=day == "tomorrow"), at, zone)
    weekday = next(
        (n for n, name in enumerate(_DAYS) if len(day) >= _SHORTEST_DAY_NAME and name.startswith(day)), None
    )
    if weekday is None:
        return _of_date(day, at, zone)
    upcoming = here.date() + timedelta(days=(weekday - here.weekday()) % 7)
    found = _local(upcoming, at, zone)
    return found if found >= here else _local(upcoming + timedelta(days=7), at, zone)


def _of_date(day: str, at: time, zone: ZoneInfo) -> datetime | None:
    """The instant of a date with a time that RFC 3339 does not allow: ``2026-11-24 9``."""
    try:
        return _local(date.fromisoformat(day), at, zone)
    except ValueError as error:
        if isinstance(error, UnclearTimeError):
            raise
        return None


def _clock(text: str | None) -> time | None:
    if text is None:
        return time()
    found = _CLOCK.fullmatch(text)
    try:
        return time(int(found[1]), int(found[2] or 0)) if found else None
    except ValueError:
        return None


def _local(day: date, at: time, zone: ZoneInfo) -> datetime:
    """The instant at which the clocks of a zone show this time; the first of two."""
    wanted = datetime.combine(day, at, zone)
    found = _utc(wanted, wanted.isoformat())
    if found.astimezone(zone).replace(tzinfo=None) != wanted.replace(tzinfo=None):
        raise UnclearTimeError(
            f"The clocks in {zone.key} never show {wanted:%H:%M} on {day}: they are put forward at that time."
        )
    return found


def _utc(moment: datetime, text: str) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise UnclearTimeError(f"{text} is beyond the calendar.") from error
