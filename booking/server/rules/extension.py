"""Whether a running booking may be prolonged."""

from booking import wording
from booking.server.records import Violation
from booking.server.rule_context import RuleContext


def extension(case: RuleContext) -> Violation | None:
    """Broken by more of a running booking, where ``limits.may_extend`` is false: more GPUs, memory or time.

    Where it is true an extension is held to every other rule: the booking as a whole stays within longest.
    """
    had = case.changing
    if had is None or case.limits.may_extend or had.state(case.now) != "active":
        return None
    if case.end <= had.end and case.adds_no_gpus:
        return None
    return Violation(
        rule="no-extension",
        message="A booking that is running is not extended here: "
        f"it stays at {wording.counted(had.count, 'GPU')} until {wording.instant(had.end)}.",
        limit=wording.iso(had.end),
        actual=wording.iso(case.end),
    )
