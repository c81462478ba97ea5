"""Bookings begin on whole days or hours."""

from booking import durations, wording
from booking.server import grid
from booking.server.records import Violation
from booking.server.rule_context import RuleContext


def granularity(case: RuleContext) -> Violation | None:
    """Broken by a start that is not on a step of ``limits.granularity``.

    Steps are counted from midnight in the site's zone. Who starts now need not wait for the next step, and a
    start that a change leaves alone is not judged again.
    """
    step, zone = case.limits.granularity, case.limits.tz
    if step is None or case.end <= case.start or not case.is_start_chosen or case.start == case.now:
        return None
    if grid.is_on(case.start, step, zone):
        return None
    following = grid.at_or_after(case.start, step, zone)
    return Violation(
        rule="off-the-grid",
        message=f"Bookings start now or on whole steps of {durations.words(step)} after midnight "
        f"({case.limits.zone}): {wording.instant(following)} would be one.",
        limit=durations.iso(step),
        actual=wording.iso(case.start),
        earliest_start=following,
    )
