"""Pods that could not be evicted: left out of the plans until the API server says that they may be.

A pod that a disruption budget protects, or whose eviction a webhook refuses, stays so for minutes or
indefinitely. If plans kept using it, its owner would get a notice and its withdrawal every few seconds, and
the booked pod a new hold each time. So the API server is asked in a dry run first, after growing pauses.
"""

from dataclasses import dataclass
from typing import Final

from booking.controller.reclaimer.evictions.refusals import Blocker
from cluster.decide.exponential_backoff import exponential_backoff
from cluster.process.clock import Clock

SPARED_FOR: Final = 10.0
"""Seconds before the API server is asked again, the first time; then twice as long as before."""
SPARED_AT_MOST: Final = 60.0
"""Seconds between two questions at most."""
RELAPSED_AT_MOST: Final = 600.0
"""The same for a pod whose dry run succeeded and whose eviction was refused all the same."""


@dataclass
class _Record:
    blocker: Blocker | None
    """None: it may be evicted again, so far as is known."""
    until: float
    times: int
    has_relapsed: bool = False


class UnevictablePods:
    """The pods that are left out, and why. Not thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._records: dict[str, _Record] = {}
        """By uid."""

    def add(self, uid: str, blocker: Blocker) -> None:
        """Record that this pod could not be evicted just now."""
        before = self._records.get(uid)
        times = before.times + 1 if before else 1
        has_relapsed = before is not None and (before.has_relapsed or before.blocker is None)
        longest = RELAPSED_AT_MOST if has_relapsed else SPARED_AT_MOST
        pause = exponential_backoff(times, first=SPARED_FOR, longest=longest)
        self._records[uid] = _Record(blocker, self._clock.monotonic() + pause, times, has_relapsed)

    def lift(self, uid: str) -> None:
        """Record that this pod may be evicted."""
        if record := self._records.get(uid):
            record.blocker = None

    def get(self, uid: str) -> Blocker | None:
        """What keeps this pod from being evicted, None if nothing is known."""
        record = self._records.get(uid)
        return record.blocker if record else None

    @property
    def uids(self) -> frozenset[str]:
        """Pods that must not be planned with."""
        return frozenset(uid for uid, one in self._records.items() if one.blocker is not None)

    @property
    def protected(self) -> frozenset[str]:
        """Those of them that disruption budgets protect, and nothing else."""
        return frozenset(
            uid for uid, one in self._records.items() if one.blocker and one.blocker.budgets is not None
        )

    @property
    def due(self) -> tuple[str, ...]:
        """Those about which the API server should be asked again, the longest due first."""
        now = self._clock.monotonic()
        found = [(one.until, uid) for uid, one in self._records.items() if one.blocker and one.until <= now]
        return tuple(uid for _, uid in sorted(found))

    def forget_all_but(self, uids: frozenset[str]) -> None:
        """Drop what is remembered about pods that are gone."""
        self._records = {uid: one for uid, one in self._records.items() if uid in uids}
