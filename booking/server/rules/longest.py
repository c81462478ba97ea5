"""A booking lasts at most so long."""

from booking import durations
from booking.server.records import Violation
from booking.server.rule_context import RuleContext


def longest(case: RuleContext) -> Violation | None:
    """Broken by a booking over ``limits.longest``, counted from its start; exactly that long is right.

    A change that only gives back does not break it, though what is left may be longer than is allowed today.
    """
    limits = case.limits
    if case.gives_back or durations.is_within(case.since, case.end, limits.longest, zone=limits.tz):
        return None
    return Violation(
        rule="longest",
        message=f"A booking lasts at most {durations.words(limits.longest)}, "
        f"this one {durations.words(case.length)}.",
        limit=durations.iso(limits.longest),
        actual=durations.iso(case.length),
    )
