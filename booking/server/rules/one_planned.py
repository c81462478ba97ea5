"""Only one planned booking at a time, or as many as the policy allows."""

from booking import wording
from booking.server.records import Violation
from booking.server.rule_context import RuleContext


def one_planned(case: RuleContext) -> Violation | None:
    """Broken while ``limits.max_planned`` of the user's bookings have still to begin.

    Waiting helps once few enough are planned and the begun ones leave room for another, too. A change adds no
    booking and does not break it.
    """
    limits, counted = case.limits, case.counted
    planned = [record for record in counted if record.state(case.now) == "planned"]
    if case.changing is not None or len(planned) < limits.max_planned:
        return None
    last = max(planned, key=lambda record: record.end)
    most = limits.max_planned
    free = min(
        moment
        for moment in {turn for each in counted for turn in (each.start, each.end) if turn > case.now}
        if sum(record.state(moment) == "planned" for record in counted) < most
        and sum(record.state(moment) == "active" for record in counted) < limits.max_active
    )
    allowed = "one planned booking at a time" if most == 1 else f"at most {most} planned bookings at a time"
    return Violation(
        rule="one-planned",
        message=f"Your booking {last.id} is planned from {wording.instant(last.start)}: {allowed}.",
        limit=most,
        actual=len(planned) + 1,
        earliest_start=free,
    )
