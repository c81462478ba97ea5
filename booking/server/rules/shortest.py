"""A booking lasts at least so long."""

from booking import durations
from booking.server.records import Violation
from booking.server.rule_context import RuleContext


def shortest(case: RuleContext) -> Violation | None:
    """Broken by a booking under ``limits.shortest``; exactly that long is right.

    One that ends before it starts is not short but wrong, and another rule refuses it. A change that leaves
    the length alone or adds to it does not break it.
    """
    limits, had = case.limits, case.changing
    if case.end <= case.since or durations.after(case.since, limits.shortest, limits.tz) <= case.end:
        return None
    if had is not None and case.length.nominal >= durations.between(had.start, had.end, limits.tz).nominal:
        return None
    return Violation(
        rule="shortest",
        message=f"A booking lasts at least {durations.words(limits.shortest)}, "
        f"this one {durations.words(case.length)}.",
        limit=durations.iso(limits.shortest),
        actual=durations.iso(case.length),
    )
