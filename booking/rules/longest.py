"""A booking lasts at most so long."""

from booking import spans
from booking.case import Case
from booking.records import Violation


def longest(case: Case) -> Violation | None:
    """Broken by a booking over ``limits.longest``, counted from its start; exactly that long is right.

    A change that only gives back does not break it, though what is left may be longer than is allowed today.
    """
    limits = case.limits
    if case.gives_back or spans.is_within(case.since, case.end, limits.longest, zone=limits.tz):
        return None
    return Violation(
        rule="longest",
        message=f"A booking lasts at most {spans.words(limits.longest)}, "
        f"this one {spans.words(case.length)}.",
        limit=spans.iso(limits.longest),
        actual=spans.iso(case.length),
    )
