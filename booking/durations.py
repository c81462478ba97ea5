"""Lengths of time as people mean them: days are calendar days in the site's zone, hours are elapsed. Pure.

Fourteen days after Sunday 00:00 is a Sunday 00:00, whatever the clocks did in between; 336 hours after it may
be another time. Every length that a user writes is parsed here: REST, page, CLI, settings and policy file.
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

import msgspec

from booking import wording

_DAY: Final = 86400
_FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
LONGEST_TEXT: Final = 40
"""Characters of a length; a longer text is refused."""
_DATE: Final = r"(?:(?P<weeks>\d{1,5})w)?(?:(?P<days>\d{1,6})d)?"
_TIME: Final = r"(?:(?P<hours>\d{1,7})h)?(?:(?P<minutes>\d{1,9})m)?(?:(?P<seconds>\d{1,11})s)?"
_ISO: Final = re.compile(rf"p{_DATE}(?:(?P<clock>t){_TIME})?", re.IGNORECASE | re.ASCII)
_SHORT: Final = re.compile(_DATE + _TIME, re.IGNORECASE | re.ASCII)


class DurationError(ValueError):
    """A text that is not a length; the message says how one is written."""


class Duration(msgspec.Struct, frozen=True):
    """A length: a number of calendar days, and after them a number of elapsed seconds."""

    days: int = 0
    seconds: int = 0

    def __post_init__(self) -> None:
        """Refuse negative lengths."""
        if self.days < 0 or self.seconds < 0:
            raise ValueError("A length cannot be negative.")

    def __bool__(self) -> bool:
        """Whether the length is greater than zero."""
        return bool(self.days or self.seconds)

    def __str__(self) -> str:
        """ISO 8601: ``P14D``, ``PT36H``."""
        return iso(self)

    @property
    def nominal(self) -> timedelta:
        """The length with days of 24 hours: for orders of magnitude, never for a decision about instants."""
        return timedelta(days=self.days, seconds=self.seconds)


def read(text: str) -> Duration:
    """A length as ISO 8601 (``P14D``, ``P1W``, ``PT36H``, ``P1DT12H``) or short (``14d``, ``1d12h``).

    Raises:
        SpanError: it is not a length, or over a hundred years.
    """
    found = _match(text)
    if found is None:
        raise DurationError(
            f"{wording.quoted(text)} is not a length of time: write P14D (calendar days), PT36H (elapsed "
            "hours), P1DT12H or PT90M, or short 14d, 36h, 1d12h, 90m."
        )
    amount = {unit: int(digits) for unit, digits in found.groupdict().items() if digits and digits.isdigit()}
    days = 7 * amount.get("weeks", 0) + amount.get("days", 0)
    seconds = 3600 * amount.get("hours", 0) + 60 * amount.get("minutes", 0) + amount.get("seconds", 0)
    if days * _DAY + seconds > LONGEST.days * _DAY:
        raise DurationError(f"{wording.quoted(text)} is too long: a hundred years at most.")
    return Duration(days, seconds)


def iso(span: Duration) -> str:
    """The length in ISO 8601, which ``read`` parses back to the same value."""
    hours, rest = divmod(span.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    clock = "".join(
        f"{amount}{unit}" for amount, unit in ((hours, "H"), (minutes, "M"), (seconds, "S")) if amount
    )
    if not span:
        return "PT0S"
    return "P" + (f"{span.days}D" if span.days else "") + (f"T{clock}" if clock else "")


def words(span: Duration) -> str:
    """The length in words; 36 elapsed hours stay 36 hours.

    >>> words(Span(14, 1))
    '14 days 1 second'
    """
    hours, rest = divmod(span.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = ((span.days, "day"), (hours, "hour"), (minutes, "minute"), (seconds, "second"))
    return " ".join(wording.counted(amount, unit) for amount, unit in parts if amount) or "0 seconds"


def after(instant: datetime, span: Duration, zone: tzinfo) -> datetime:
    """The instant a span later, in UTC: the same time of day so many days later, then the seconds.

    A time of day that the clocks skip on that day becomes the first instant after the gap; of one that they
    show twice, the first is taken.
    """
    return _elapsed(_days_on(instant, span.days, zone), span.seconds)


def before(instant: datetime, span: Duration, zone: tzinfo) -> datetime:
    """The instant a span earlier, in UTC: the same time of day so many days earlier, then the seconds."""
    return _elapsed(_days_on(instant, -span.days, zone), -span.seconds)


def is_within(start: datetime, end: datetime, span: Duration, *, zone: tzinfo) -> bool:
    """Whether ``[start, end)`` is at most that long."""
    return end <= after(start, span, zone)


def between(start: datetime, end: datetime, zone: tzinfo) -> Duration:
    """The length of ``[start, end)``: as many whole calendar days as fit, and the remaining seconds.

    ``after(start, between(start, end, zone), zone)`` is ``end``. The length is zero if the end is not after
    the start.
    """
    if end <= start:
        return Duration()
    days = (end - start).days + 1
    while days and _days_on(start, days, zone) > end:
        days -= 1
    return Duration(days, int((end - _days_on(start, days, zone)).total_seconds()))


def wall_clock_of(instant: datetime, zone: tzinfo) -> datetime:
    """What the clocks of a zone show; at the calendar's very ends, where they show nothing, UTC."""
    try:
        return instant.astimezone(zone)
    except OverflowError:
        return instant.astimezone(UTC)


def _days_on(instant: datetime, days: int, zone: tzinfo) -> datetime:
    """The same time of day so many days later; clamped to the calendar's first and last instant."""
    if not days:
        return instant.astimezone(UTC)
    try:
        if zone.utcoffset(None) is not None:
            # The clocks of this zone never change: its days have 24 hours.
            return instant.astimezone(UTC) + timedelta(days=days)
        wall = wall_clock_of(instant, zone).replace(tzinfo=None) + timedelta(days=days)
        return resolved(wall, zone)
    except OverflowError:
        return _LAST if days > 0 else _FIRST


def _elapsed(instant: datetime, seconds: int) -> datetime:
    try:
        return instant + timedelta(seconds=seconds)
    except OverflowError:
        return _LAST if seconds > 0 else _FIRST


def resolved(wall: datetime, zone: tzinfo) -> datetime:
    """The instant, in UTC, at which the clocks of a zone show a naive time.

    A skipped time becomes the first instant after the gap; of an ambiguous one, the first is taken.
    """
    local = wall.replace(tzinfo=zone, fold=0)
    instant = local.astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None) == wall:
        return instant
    # In a gap: with the offset from after the gap the result lies before it, with the offset from before the
    # gap it lies after it. The gap itself lies between the two.
    return _turn(local.replace(fold=1).astimezone(UTC), instant, zone)


def _turn(low: datetime, high: datetime, zone: tzinfo) -> datetime:
    """The instant in ``(low, high]`` at which the offset changes, to the second."""
    offset = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=int((high - low).total_seconds()) // 2)
        if middle.astimezone(zone).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return high


def _match(text: str) -> re.Match[str] | None:
    """A text that is a length and names at least one amount."""
    if not 1 < len(text) <= LONGEST_TEXT:
        return None
    found = _ISO.fullmatch(text) or _SHORT.fullmatch(text)
    if found is None:
        return None
    amounts = found.groupdict()
    needs_clock = amounts.pop("clock", None) is not None
    named = {unit for unit, digits in amounts.items() if digits}
    has_clock = bool(named & {"hours", "minutes", "seconds"})
    return found if named and (has_clock or not needs_clock) else None


LONGEST: Final = Duration(days=36525)
"""A century: sums of a few of them stay within the calendar for which we guarantee anything."""
