"""One user has at most so many GPUs booked at any instant."""

from collections.abc import Sequence
from datetime import datetime

from booking import calendar, durations, wording
from booking.records import Record, Violation
from booking.rule_context import RuleContext


def concurrent_gpus(case: RuleContext) -> Violation | None:
    """Broken where the user's bookings of all models together exceed ``limits.max_concurrent_gpus``.

    Not by a booking that begins soon enough to be spontaneous, nor by a change that only gives back. Past
    overlaps with a running booking do not count.
    """
    most, start = case.limits.max_concurrent_gpus, max(case.start, case.now)
    if most is None or case.end <= start or case.is_spontaneous or case.gives_back:
        return None
    own = [each for each in case.history if each.cancelled is None and each.end > start]
    already = calendar.peak(own, start, case.end)
    if already + case.count <= most:
        return None
    others = f" in addition to the {already} of your other bookings" if already else ""
    return Violation(
        rule="too-many-gpus-at-a-time",
        message=f"You may have at most {wording.counted(most, 'GPU')} booked at any time: "
        f"this asks for {case.count}{others}.",
        limit=most,
        actual=already + case.count,
        earliest_start=None if case.count > most else _free(case, own, most - case.count),
    )


def _free(case: RuleContext, own: Sequence[Record], most: int) -> datetime:
    """The first start at which few enough other GPUs are booked for the whole length."""
    length, zone = case.length, case.limits.tz
    return min(
        start
        for start in {each.end for each in own}
        if calendar.peak(own, start, durations.after(start, length, zone)) <= most
    )
