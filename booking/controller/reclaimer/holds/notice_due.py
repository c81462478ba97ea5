"""When a victim with a notice must leave: when the notice is over, or its work is saved. Pure.

A victim's notice is the longer of the policy's and the pod's own request, which counts up to a limit. An
annotation that cannot be parsed counts as absent.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from booking.eviction.settings import EvictionSettings
from cluster import names
from cluster.kube.clock_skew import LARGEST_SKEW
from cluster.objects.pods import Pod


@dataclass(frozen=True, slots=True)
class Notice:
    """The notice that one victim of one hold was given."""

    text: str
    """The value of the annotation on the victim."""
    given: datetime
    """When the hold was written: no later than the notice itself."""
    over: float
    """The monotonic instant at which it must leave."""
    ahead: bool
    """Whether the notice is given before that; otherwise it is part of the write that prepares the
    eviction."""
    blocked_until: datetime | None = None
    """Until when budgets keep victims of the hold, if they do."""


def notice_seconds(victim: Pod, terms: EvictionSettings) -> float:
    """Seconds from the victim's notice to its eviction."""
    return max(terms.notice_seconds, min(_requested(victim), terms.longest_notice_seconds))


def is_due(victim: Pod, notice: Notice, *, monotonic: float, now: datetime) -> bool:
    """Whether the victim must leave at this instant.

    Args:
        victim: in its present state.
        notice: the notice that it was given.
        monotonic: the instant.
        now: the same instant by the wall clock, which pods use.
    """
    return monotonic >= notice.over or has_saved(victim, notice.given, now)


def has_saved(victim: Pod, given: datetime, now: datetime) -> bool:
    """Whether the pod reports that it has saved its work since the notice.

    Pods write whole seconds (``date``), by the clock of their node: the second in which the notice was given
    counts, and so does a clock that is ahead by as much as law L6 allows.
    """
    saved_at = _instant(victim.metadata.annotation(names.CHECKPOINT_DONE))
    return saved_at is not None and given.replace(microsecond=0) <= saved_at <= now + LARGEST_SKEW


def _requested(victim: Pod) -> float:
    text = victim.metadata.annotation(names.REQUESTED_NOTICE)
    try:
        return msgspec.convert((text or "").strip(), timedelta).total_seconds()
    except msgspec.ValidationError:
        return 0.0


def _instant(text: str | None) -> datetime | None:
    try:
        instant = msgspec.convert((text or "").strip(), datetime)
    except msgspec.ValidationError:
        return None
    return instant if instant.tzinfo else None  # without a time zone it is ambiguous
