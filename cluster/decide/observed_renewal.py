"""When a Lease was renewed, as observed by a reader. Pure.

A renewal counts from the moment at which the reader sees it, on the reader's own monotonic clock, so the
clocks of two machines may differ. But an event may come late: an API server that was paused delivers what it
had queued. A renewal that was written long before it is seen is not a new sign of life (law L6). By the
writer's own clock, two values of ``renewTime`` show how long after the previous renewal it was written.
"""

from datetime import datetime
from typing import Final

LATE: Final = 10.0
"""Seconds by which a renewal may be later than expected by ``renewTime`` and still count as a new one."""
_SPACED: Final = 1.0
"""Seconds between two renewals that suffice to tell whether their events come as they are written."""


def renewed_at(
    renewed: datetime, before: datetime, *, seen: float, seen_before: float, at_before: float
) -> float:
    """The instant from which a renewal counts, on the reader's monotonic clock; ``seen`` or earlier.

    Args:
        renewed: its ``renewTime``.
        before: the ``renewTime`` of the renewal that was seen before.
        seen: when it is seen.
        seen_before: when the one before was seen.
        at_before: the instant from which the one before counts.
    """
    passed = (renewed - before).total_seconds()
    due = at_before + passed
    if passed < 0 or seen - due <= LATE:
        return seen
    gap = seen - seen_before
    if passed >= _SPACED and passed / 2 <= gap <= passed + LATE:
        return seen  # they come one at a time, as they are written: the writer's clock was set back once
    return due
