"""No booking while one is running."""

from booking import wording
from booking.server.records import Violation
from booking.server.rule_context import RuleContext


def no_active_overlap(case: RuleContext) -> Violation | None:
    """Broken while ``limits.max_active`` of the user's bookings run, even for a span that begins after them.

    A change adds no booking and does not break it.
    """
    most = case.limits.max_active
    counted = case.counted
    running = [record for record in counted if record.state(case.now) == "active"]
    if case.changing is not None or len(running) < most:
        return None
    last = max(running, key=lambda record: record.end)
    # A planned one may have begun by then: the first end at which few enough run.
    free = min(
        end
        for end in {record.end for record in counted if record.end > case.now}
        if sum(record.state(end) == "active" for record in counted) < most
    )
    if most == 1:
        message = (
            f"Your booking {last.id} runs until {wording.instant(last.end)}: "
            "nobody books while a booking of theirs is running."
        )
    else:
        message = (
            f"{len(running)} bookings of yours are running, and nobody books while {most} of theirs are: "
            f"wait until {wording.instant(free)}."
        )
    return Violation(
        rule="no-active-overlap", message=message, limit=most - 1, actual=len(running), earliest_start=free
    )
