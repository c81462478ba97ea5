"""Booked pods that wait for their GPUs: how many, and since when. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod
from cluster.objects.scheduling_gates import other_gates


@dataclass(frozen=True, slots=True)
class Waiting:
    """Their number, and the longest wait."""

    pods: int
    longest: float
    """Seconds for which one of them waits already; 0 where none does."""


def waiting(pods: Mapping[str, Pod], cover: Mapping[str, Booking], now: datetime) -> Waiting:
    """Those that a running booking covers and that are not bound, though nothing but us keeps them.

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
