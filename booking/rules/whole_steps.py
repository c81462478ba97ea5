"""Bookings last whole days or hours, or end on one."""

from booking import grid, spans, wording
from booking.case import Case
from booking.records import Violation


def whole_steps(case: Case) -> Violation | None:
    """Broken by a length and an end that are both beside ``limits.granularity``.

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
        message=f"Bookings last whole steps of {spans.words(step)} or end on one; "
        f"this one lasts {spans.words(case.length)} and ends at {wording.instant(case.end)}.",
        limit=spans.iso(step),
        actual=spans.iso(case.length),
    )
