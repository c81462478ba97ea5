"""A booking lasts at least so long."""

from booking import spans
from booking.case import Case
from booking.records import Violation


def shortest(case: Case) -> Violation | None:
    """Broken by a booking under ``limits.shortest``; exactly that long is right.

    One that ends before it starts is not short but wrong, and is told so elsewhere. A change that leaves the
    length alone or adds to it does not break it.
    """
    limits, had = case.limits, case.changing
    if case.end <= case.since or spans.after(case.since, limits.shortest, limits.tz) <= case.end:
        return None
    if had is not None and case.length.nominal >= spans.between(had.start, had.end, limits.tz).nominal:
        return None
    return Violation(
        rule="shortest",
        message=f"A booking lasts at least {spans.words(limits.shortest)}, "
        f"this one {spans.words(case.length)}.",
        limit=spans.iso(limits.shortest),
        actual=spans.iso(case.length),
    )
