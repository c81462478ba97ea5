"""Bookings last whole days or hours, or end on one."""

from booking import durations, wording
from booking.server import grid
from booking.server.records import Violation
from booking.server.rule_context import RuleContext


def whole_steps(case: RuleContext) -> Violation | None:
    """Broken by a length and an end that are both off the steps of ``limits.granularity``.

    An end that a change leaves alone is not judged again.
    """
    step = case.limits.granularity
    if step is None or case.end <= case.start:
        return None
    is_end_kept = case.changing is not None and case.changing.end == case.end
    if is_end_kept or grid.is_multiple(case.length, step) or grid.is_on(case.end, step, case.limits.tz):
        return None
    return Violation(
        rule="not-whole-steps",
        message=f"Bookings last whole steps of {durations.words(step)} or end on one; "
        f"this one lasts {durations.words(case.length)} and ends at {wording.instant(case.end)}.",
        limit=durations.iso(step),
        actual=durations.iso(case.length),
    )
