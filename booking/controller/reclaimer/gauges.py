"""Gauges of the cluster that every replica of the controller exposes, computed at each scrape.

Read from the cache, not counted by the loop: a reclaimer that hangs, or does not lead, would report nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from prometheus_client import CollectorRegistry

from cluster import names
from cluster.cache import ClusterCache
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod
from cluster.objects.scheduling_gates import other_gates
from cluster.process.clock import Clock
from cluster.process.metrics import measured


@dataclass(frozen=True, slots=True)
class Waiting:
    """Booked pods that wait for their GPUs: how many, and the longest wait."""

    pods: int
    longest: float
    """Seconds of the longest wait so far; 0 if none waits."""


def waiting(pods: Mapping[str, Pod], cover: Mapping[str, Booking], now: datetime) -> Waiting:
    """Those that a running booking covers and that are not bound, though no other scheduling gate keeps them.

    Args:
        pods: by uid.
        cover: uid of a live pod -> the booking that covers it now.
        now: the instant.
    """
    found = [
        (now - max(pod.metadata.creation_timestamp or now, booking.spec.start)).total_seconds()
        for uid, booking in cover.items()
        if (pod := pods.get(uid)) and not pod.spec.node_name and not other_gates(pod)
    ]
    return Waiting(len(found), max(found, default=0.0))


@dataclass(frozen=True)
class Seen:
    """The cluster, as this process's cache has it."""

    cache: ClusterCache
    clock: Clock
    staleness: Callable[[], float | None]
    """Seconds since the last event or bookmark of the stalest watch."""
    unready_reason: Callable[[], str | None]
    """Why the cache cannot be trusted, None when it can."""

    def mirror_age(self) -> float | None:
        """Seconds since the booking server renewed the mirror's Lease, None where there is none."""
        return self.cache.renewals.age(names.MIRROR_LEASE, monotonic=self.clock.monotonic())

    def queued(self) -> int:
        """Pods behind our scheduling gate."""
        with self.cache.locked():
            return len(self.cache.queued)

    def waiting(self) -> Waiting | None:
        """Booked pods that wait, None while that is not known."""
        if self.unready_reason():
            return None
        with self.cache.locked():
            now = self.clock.now()
            return waiting(self.cache.pods, self.cache.cover(now), now)


def show(seen: Seen, registry: CollectorRegistry) -> None:
    """Register the reclaimer's gauges."""
    measured(
        registry,
        "controller_cache_staleness_seconds",
        "Seconds since the last event or bookmark of the stalest watch (pods, nodes, Leases,"
        " bookings and others).",
        seen.staleness,
    )
    measured(
        registry,
        "controller_mirror_lease_age_seconds",
        "Seconds since the booking server renewed the mirror's Lease; NaN where there is none. From 60 on"
        " nothing is ended (law L6).",
        seen.mirror_age,
    )
    measured(
        registry,
        "controller_booked_pods_waiting",
        "Pods that a running booking covers and that are not bound yet; NaN while that is not known.",
        lambda: float(found.pods) if (found := seen.waiting()) else None,
    )
    measured(
        registry,
        "controller_pods_queued",
        "Pods without a booking that wait behind our scheduling gate until a GPU is free.",
        lambda: float(seen.queued()),
    )
    measured(
        registry,
        "controller_longest_booked_wait_seconds",
        "Seconds that the longest waiting of those pods has waited, since its creation and its booking's"
        " start; 0 where none does.",
        lambda: found.longest if (found := seen.waiting()) else None,
    )
