"""When a Lease was renewed, as observed by a reader: pure.

A renewal counts from the moment at which the reader sees it, on the reader's own monotonic clock, so the
clocks of two machines may differ. But an event may come late (an API server that was paused delivers what it
had queued): a renewal that was written long before it is seen is no fresh sign of life (law L6). The writer's
own clock, in both texts, shows how long after the previous renewal it was written.
"""

from datetime import datetime
from typing import Final

LATE: Final = 10.0
"""Seconds by which a renewal may come later than the texts say without being taken for an old one."""
_SPACED: Final = 1.0
"""Seconds between two renewals from which on it is known whether they come one at a time."""


def renewed_at(
    renewed: datetime, before: datetime, *, seen: float, seen_before: float, at_before: float
) -> float:
    """The instant from which on a renewal counts, on the reader's monotonic clock; ``seen`` or earlier.

    Args:
        renewed: its text.
        before: the text of the one that was seen before.
        seen: when it is seen.
        seen_before: when the one before was seen.
        at_before: from when on the one before counts.
    """
    passed = (renewed - before).total_seconds()
    due = at_before + passed
    if passed < 0 or seen - due <= LATE:
        return seen
    gap = seen - seen_before
    if passed >= _SPACED and passed / 2 <= gap <= passed + LATE:
        return seen  # they come one at a time, as they are written: the writer's clock was set back once
    return due
