"""When more devices are booked than there are, in words. Pure."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from booking import wording
from booking.server.web.pages import load
from booking.server.web.pages.calendar_range import CalendarRange
from booking.server.web.pages.load import Step

_MOST: Final = 3
"""Spans that are named."""
_ALONE: Final = 2
"""So many days in a row are named each."""


def short_text(found: Sequence[Step], range_: CalendarRange) -> str:
    """How many devices are missing, and on which of the shown days; empty if none are.

    ``10 short on Sat 21 Mar and Sun 22 Mar``, ``up to 10 short from Sat 21 Mar to Thu 26 Mar``.
    """
    days = load.days(found, range_.axis.midnights, range_.clock.now)
    amounts = {day.over for day in days if day.over}
    if not amounts:
        return ""
    spans = [*_spans([day.over > 0 for day in days], range_)]
    more = ["later"] if len(spans) > _MOST else []
    *first, last = [*spans[:_MOST], *more]
    when = f"{wording.listed(first)} and {last}" if first else last
    return f"{'up to ' if len(amounts) > 1 else ''}{max(amounts)} short {when}"


def _spans(short: Sequence[bool], range_: CalendarRange) -> Iterator[str]:
    """Each span of days with a shortage: ``on Sat 21 Mar``, ``from Sat 21 Mar to Thu 26 Mar``."""
    clock, midnights = range_.clock, range_.axis.midnights
    for is_short, run in groupby(range(len(short)), key=lambda place: short[place]):
        if not is_short:
            continue
        names = [clock.day(midnights[place]) for place in run]
        if len(names) <= _ALONE:
            yield f"on {' and '.join(names)}"
        else:
            yield f"from {names[0]} to {names[-1]}"
