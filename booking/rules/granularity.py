"""Bookings begin on whole days or hours, and last whole ones."""

from booking import grid, spans, wording
from booking.case import Case
from booking.records import Violation


def granularity(case: Case) -> Violation | None:
    """Broken by a start beside ``limits.granularity``, and by a length and end that are both beside it.

    Steps are counted from midnight in the site's zone. Who starts now need not wait for the next step, and a
    start that a change leaves alone is not judged again, nor is an end.
    """
    step, zone = case.limits.granularity, case.limits.tz
    if step is None or case.end <= case.start:
        return None
    limit = spans.iso(step)
    if case.is_start_chosen and case.start != case.now and not grid.is_on(case.start, step, zone):
        following = grid.at_or_after(case.start, step, zone)
        return Violation(
            rule="off-the-grid",
            message=f"Bookings start now or on whole steps of {spans.words(step)} after midnight "
            f"({case.limits.zone}): {wording.instant(following)} would be one.",
            limit=limit,
            actual=wording.iso(case.start),
            earliest_start=following,
        )
    is_end_kept = case.changing is not None and case.changing.end == case.end
    if is_end_kept or grid.is_multiple(case.length, step) or grid.is_on(case.end, step, zone):
        return None
    return Violation(
        rule="off-the-grid",
        message=f"Bookings last whole steps of {spans.words(step)} or end on one; "
        f"this one lasts {spans.words(case.length)} and ends at {wording.instant(case.end)}.",
        limit=limit,
        actual=spans.iso(case.length),
    )
