"""One booking has at most so many GPUs."""

from booking import wording
from booking.server.records import Violation
from booking.server.rule_context import GPU, RuleContext


def most_gpus(case: RuleContext) -> Violation | None:
    """Broken by more than ``limits.max_gpus_per_booking``, unless the booking is spontaneous.

    A change that only gives back does not break it, nor one that adds no GPUs and lets it start no later:
    what was had at short notice is not moved to next month. A share counts as a part of a GPU.
    """
    most, had = case.limits.max_gpus_per_booking, case.changing
    if most is None or case.thousandths <= most * GPU or case.is_spontaneous:
        return None
    if had is not None and (case.gives_back or (case.adds_no_gpus and case.start <= had.start)):
        return None
    allowed = f"at most {wording.counted(most, 'GPU')}" if most else "no GPU"
    return Violation(
        rule="too-many-gpus",
        message=f"You may book {allowed} of model {case.model} at once, "
        f"not {wording.thousandths(case.thousandths)}.",
        limit=most,
        actual=wording.thousandths_actual(case.thousandths),
    )
