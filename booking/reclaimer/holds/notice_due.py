"""When a victim that was told to go has to: after its notice, or once it has saved its work. Pure.

A victim's notice is the longer of the policy's and its own wish, which counts up to a limit. What a pod says
that cannot be read counts as if it had said nothing.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from booking.eviction_settings import EvictionSettings
from cluster import names
from cluster.kube.clock_skew import LARGEST_SKEW
from cluster.objects.pods import Pod


@dataclass(frozen=True, slots=True)
class Notice:
    """What one victim of one hold was told."""

    text: str
    """As it stands on the pod."""
    given: datetime
    """No later than it was told so: when the hold was written."""
    over: float
    """The monotonic instant at which it must go."""
    ahead: bool
    """Whether it is told before that; else it is told by the write that makes it ready to leave."""


def notice_seconds(victim: Pod, terms: EvictionSettings) -> float:
    """How long before its eviction the victim is told."""
    return max(terms.notice_seconds, min(_wish(victim), terms.longest_notice_seconds))


def is_due(victim: Pod, notice: Notice, *, monotonic: float, now: datetime) -> bool:
    """Whether the victim must go at this instant.

    Args:
        victim: as it is now.
        notice: what it was told.
        monotonic: the instant.
        now: the same by the wall clock, to which pods write.
    """
    return monotonic >= notice.over or has_saved(victim, notice.given, now)


def has_saved(victim: Pod, given: datetime, now: datetime) -> bool:
    """Whether the pod says that it has saved its work since it was told.

    Pods write whole seconds (``date``), by the clock of their node: the second in which the notice was given
    counts, and a clock that is ahead as far as law L6 lets ours be.
    """
    said = _instant(victim.metadata.annotation(names.CHECKPOINT_DONE))
    return said is not None and given.replace(microsecond=0) <= said <= now + LARGEST_SKEW


def _wish(victim: Pod) -> float:
    text = victim.metadata.annotation(names.REQUESTED_NOTICE)
    try:
        return msgspec.convert((text or "").strip(), timedelta).total_seconds()
    except msgspec.ValidationError:
        return 0.0


def _instant(text: str | None) -> datetime | None:
    try:
        said = msgspec.convert((text or "").strip(), datetime)
    except msgspec.ValidationError:
        return None
    return said if said.tzinfo else None  # an instant without a zone is no instant
