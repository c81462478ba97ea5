"""One user has at most so many GPUs booked at any instant."""

from collections.abc import Sequence
from datetime import datetime

from booking import durations, wording
from booking.server import calendar
from booking.server.calendar import Lost
from booking.server.records import Record, Violation
from booking.server.rule_context import GPU, RuleContext


def concurrent_gpus(case: RuleContext) -> Violation | None:
    """Broken where the user's bookings of all models together exceed ``limits.max_concurrent_gpus``.

    Not by a booking that begins soon enough to be spontaneous, nor by a change that only gives back. Past
    overlaps with a running booking do not count. A share counts as a part of a GPU.
    """
    most, start = case.limits.max_concurrent_gpus, max(case.start, case.now)
    if most is None or case.end <= start or case.is_spontaneous or case.gives_back:
        return None
    own = [each for each in case.history if each.cancelled is None and each.end > start]
    already = _peak(case, own, start, case.end)
    requested = already + case.thousandths
    if requested <= most * GPU:
        return None
    others = f" in addition to the {wording.thousandths(already)} of your other bookings" if already else ""
    return Violation(
        rule="too-many-gpus-at-a-time",
        message=f"You may have at most {wording.counted(most, 'GPU')} booked at any time: "
        f"this asks for {wording.thousandths(case.thousandths)}{others}.",
        limit=most,
        actual=wording.thousandths_actual(requested),
        earliest_start=_free(case, own, room) if (room := most * GPU - case.thousandths) >= 0 else None,
    )


def _peak(case: RuleContext, own: Sequence[Record], start: datetime, end: datetime) -> int:
    """The most thousandths of a GPU that the user has booked at any instant of the span."""
    return calendar.peak((Lost(each.start, each.end, case.thousandths_of(each)) for each in own), start, end)


def _free(case: RuleContext, own: Sequence[Record], most: int) -> datetime:
    """The first start at which few enough thousandths of other GPUs are booked for the whole length."""
    length, zone = case.length, case.limits.tz
    return min(
        start
        for start in {each.end for each in own}
        if _peak(case, own, start, durations.after(start, length, zone)) <= most
    )
