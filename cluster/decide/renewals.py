"""Who holds a Lease (the scheduler's, the controller's, the mirror's), derived from its renewals.

A renewal counts from the moment at which the reader sees it, on the reader's own monotonic clock, unless
its event came late (``observed_renewal``). Only at first sight its age is computed from ``renewTime`` and the
wall clock. Pure: instants are passed in.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cluster.decide.ledger.resource_versions import is_older
from cluster.decide.observed_renewal import renewed_at
from cluster.objects.nodes import Lease

WATCH_STALE_AFTER: Final = 15.0
"""Seconds without a renewal of any Lease: some are renewed every two seconds, so our own watch has failed."""


@dataclass(frozen=True, slots=True)
class _Seen:
    lease: Lease
    at: float
    """The instant from which its newest renewal counts."""
    seen: float
    """When that renewal was seen."""


class Renewals:
    """The newest renewal of every Lease that was passed to ``apply_lease``."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._newest: float | None = None
        self._resumed_at: float | None = None

    def apply_lease(self, lease: Lease, *, monotonic: float, now: datetime) -> None:
        """Take over a Lease; a state older than the known one is ignored.

        Args:
            lease: any Lease of the product's namespace.
            monotonic: the reader's monotonic clock, seconds.
            now: the reader's wall clock, aware.
        """
        name, renewed = lease.metadata.name, lease.spec.renew_time
        known = self._seen.get(name)
        if known and is_older(lease.metadata, known.lease.metadata):
            return
        seen = monotonic
        if known is None or known.lease.metadata.uid != lease.metadata.uid:
            at = monotonic - max(0.0, (now - renewed).total_seconds()) if renewed else monotonic
        elif renewed == known.lease.spec.renew_time:
            at, seen = known.at, known.seen
        else:
            at = _counts_from(known, lease, monotonic)
        self._seen[name] = _Seen(lease=lease, at=at, seen=seen)
        if self._newest is not None and at - self._newest > WATCH_STALE_AFTER:
            self._resumed_at = at
        self._newest = at if self._newest is None else max(at, self._newest)

    def forget_lease(self, name: str) -> None:
        """A Lease is gone."""
        self._seen.pop(name, None)

    def names(self) -> tuple[str, ...]:
        """Names of the Leases that exist, sorted."""
        return tuple(sorted(self._seen))

    def lease(self, name: str) -> Lease | None:
        """A Lease as it is now; None if there is none."""
        known = self._seen.get(name)
        return known.lease if known else None

    def age(self, name: str, *, monotonic: float) -> float | None:
        """Seconds since the Lease was renewed; None if there is no such Lease."""
        known = self._seen.get(name)
        return monotonic - known.at if known else None

    def since_watch_stale(self, *, monotonic: float) -> float | None:
        """Seconds since renewals resumed after ``WATCH_STALE_AFTER`` without any; 0 while there are none.

        None if there has always been one in time.
        """
        if self._newest is not None and monotonic - self._newest > WATCH_STALE_AFTER:
            return 0.0
        return None if self._resumed_at is None else monotonic - self._resumed_at

    def holder(self, name: str, *, monotonic: float, now: datetime) -> str | None:
        """The holder of a Lease at this instant; None if it has none or has expired.

        The Lease expires by either clock: a renewal that is read late, after this process was paused, is old
        by its ``renewTime``. So this is meant for a holder on this machine, whose wall clock is ours.
        """
        known = self._seen.get(name)
        spec = known.lease.spec if known else None
        if known is None or spec is None or not spec.lease_duration_seconds or spec.renew_time is None:
            return None
        if monotonic - known.at >= spec.lease_duration_seconds:
            return None
        if now - spec.renew_time >= timedelta(seconds=spec.lease_duration_seconds):
            return None
        return spec.holder_identity or None


def _counts_from(known: _Seen, lease: Lease, seen: float) -> float:
    """The instant from which the renewal counts, for a Lease that was seen before."""
    renewed, before = lease.spec.renew_time, known.lease.spec.renew_time
    if renewed is None or before is None or lease.spec.holder_identity != known.lease.spec.holder_identity:
        return seen  # another holder's clock is no evidence
    return renewed_at(renewed, before, seen=seen, seen_before=known.seen, at_before=known.at)
