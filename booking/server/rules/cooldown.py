"""Some time must pass between the end of a user's last booking and the start of the next."""

from booking import durations, wording
from booking.server.records import Violation
from booking.server.rule_context import RuleContext


def cooldown(case: RuleContext) -> Violation | None:
    """Broken by a start less than ``limits.cooldown`` after the end of any of the user's bookings.

    A released booking counts from its real end; ends that are still to come count, too. Cancelled bookings
    and those that an administrator pardoned do not. A start exactly that long after the end is right. A
    change that leaves the start alone does not break it, unless it lets the end come nearer than that to the
    start of the user's next booking.
    """
    return _before(case) or _after(case)


def _before(case: RuleContext) -> Violation | None:
    limits = case.limits
    ends = [record.end for record in case.counted if not record.waived]
    if not ends or not limits.cooldown or not case.is_start_chosen:
        return None
    # Where a clock is turned back, the cooldown after a later end may be over earlier: the latest counts.
    earliest, last = max((durations.after(end, limits.cooldown, limits.tz), end) for end in ends)
    if case.start >= earliest:
        return None
    passed = durations.between(last, case.start, limits.tz) if case.start > last else durations.Duration()
    return Violation(
        rule="cooldown",
        message=f"Your last booking's end is {wording.instant(last)}, and the next one starts at least "
        f"{durations.words(limits.cooldown)} after it: {wording.instant(earliest)} or later.",
        limit=durations.iso(limits.cooldown),
        actual=durations.iso(passed),
        earliest_start=earliest,
    )


def _after(case: RuleContext) -> Violation | None:
    limits, had = case.limits, case.changing
    if had is None or case.is_start_chosen or case.end <= had.end or not limits.cooldown:
        return None
    following = [record for record in case.counted if record.start >= had.end]
    if not following:
        return None
    upcoming = min(following, key=lambda record: record.start)
    start = upcoming.start
    if durations.after(case.end, limits.cooldown, limits.tz) <= start:
        return None
    passed = durations.between(case.end, start, limits.tz)
    return Violation(
        rule="cooldown",
        message=f"Your next booking {upcoming.id} starts at {wording.instant(start)}, and this one ends "
        f"at least {durations.words(limits.cooldown)} before that, not at {wording.instant(case.end)}.",
        limit=durations.iso(limits.cooldown),
        actual=durations.iso(passed),
    )
