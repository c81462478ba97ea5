"""Steps of a day: which instants are on them, by the clocks of a zone. Pure."""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from booking.durations import Duration, wall_clock_of

_DAY: Final = 86400


def is_on(instant: datetime, step: Duration, zone: tzinfo) -> bool:
    """Whether the clocks show a whole number of steps after midnight, to the microsecond."""
    wall = wall_clock_of(instant, zone)
    return not wall.microsecond and _since_midnight(wall) % _seconds(step) == 0


def at_or_after(instant: datetime, step: Duration, zone: tzinfo) -> datetime:
    """The first instant on a step at or after this one, in UTC, in whole seconds.

    Around a clock change, steps of either offset count; a step whose time is skipped does not.
    """
    moment = instant.astimezone(UTC)
    if moment.microsecond:
        moment = moment.replace(microsecond=0) + timedelta(seconds=1)
    while True:
        later = moment + timedelta(seconds=_seconds(step))
        offsets = {wall_clock_of(moment, zone).utcoffset(), wall_clock_of(later, zone).utcoffset()}
        found = [_step_by(moment, offset, step) for offset in offsets if offset is not None]
        on_step = [each for each in found if is_on(each, step, zone)]
        if on_step:
            return min(on_step)
        moment = later


def is_multiple(length: Duration, step: Duration) -> bool:
    """Whether a length is a whole number of steps; calendar days always are."""
    return length.seconds % _seconds(step) == 0


def rounded_up(length: Duration, step: Duration) -> Duration:
    """The shortest length in whole steps that is at least this long."""
    missing = -length.seconds % _seconds(step)
    seconds = length.seconds + missing
    return (
        Duration(length.days + seconds // _DAY, seconds % _DAY)
        if step.days
        else Duration(length.days, seconds)
    )


def rounded_down(length: Duration, step: Duration) -> Duration:
    """The longest length in whole steps that is at most this long."""
    return Duration(length.days, length.seconds - length.seconds % _seconds(step))


def _step_by(moment: datetime, offset: timedelta, step: Duration) -> datetime:
    """The first step at or after a moment, if the clocks had this offset."""
    wall = moment + offset
    return moment + timedelta(seconds=-_since_midnight(wall) % _seconds(step))


def _since_midnight(wall: datetime) -> int:
    return wall.hour * 3600 + wall.minute * 60 + wall.second


def _seconds(step: Duration) -> int:
    return step.days * _DAY + step.seconds
