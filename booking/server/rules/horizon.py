"""A booking starts at most so far ahead."""

from booking import durations, wording
from booking.server.records import Violation
from booking.server.rule_context import RuleContext


def horizon(case: RuleContext) -> Violation | None:
    """Broken by a start further ahead than ``limits.horizon``; exactly that far is right.

    Waiting until it is near enough helps, an earlier start does at once. A change that moves the start no
    further away, or that only gives back, does not break it.
    """
    limits, had = case.limits, case.changing
    if limits.horizon is None or case.gives_back or (had is not None and case.start <= had.start):
        return None
    farthest = durations.after(case.now, limits.horizon, limits.tz)
    if case.start <= farthest:
        return None
    return Violation(
        rule="beyond-the-horizon",
        message=f"A booking starts at most {durations.words(limits.horizon)} ahead, "
        f"by {wording.instant(farthest)}; this one starts at {wording.instant(case.start)}.",
        limit=wording.iso(farthest),
        actual=wording.iso(case.start),
    )
