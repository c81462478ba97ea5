"""Which booking covers a pod, or why none does: the explanation for the pod's owner.

Entitlement decides; this module finds what the decision depended on. The reason that it names is always a
real one: without it, the pod would be nearer to its cover.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from cluster.decide.booking_use import BookingUse, Example, is_within
from cluster.decide.entitlement import (
    Candidate,
    UserCoverage,
    candidate,
    is_of_model,
    is_of_namespace,
    is_of_resource,
)
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod

Kind = Literal[
    "covered",
    "none",
    "unbookable",
    "later",
    "namespace",
    "resource",
    "model",
    "share",
    "count",
    "used-up",
    "place",
]

_NEARNESS: Final[tuple[Kind, ...]] = ("namespace", "resource", "model", "share", "count", "used-up", "place")
"""The checks of a running booking, in order. The booking that passes most of them is nearest to cover."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Covered by a booking, or why not."""

    kind: Kind = "none"
    booking: Booking | None = None
    """The booking that covers the pod, will cover it, or comes nearest to it."""
    asks: Candidate | None = None
    """The pod; None for one that no booking can cover."""
    users: tuple[Pod, ...] = ()
    """Pods that the booking covers instead."""
    left: int | None = 0
    """GPUs of the booking that no covered pod uses; None where pods with shares use parts of them."""

    @property
    def cover(self) -> Booking | None:
        """The booking that covers the pod."""
        return self.booking if self.kind == "covered" else None


def coverage(
    pod: Pod, user_coverage: UserCoverage, now: datetime, *, asks: Candidate | None = None
) -> Coverage:
    """The booking that covers a pod, or the reason why none does.

    Args:
        pod: the pod, which may not exist yet.
        user_coverage: bookings and pods of its user at this instant, including the pod.
        now: the instant.
        asks: the pod as a candidate with the devices that it has; None for a pod that is not bound.
    """
    asks = asks or candidate(pod, held=None, models={})
    if asks is None:
        return Coverage(kind="unbookable")
    cover = user_coverage.covered.get(asks.uid)
    if cover:
        return Coverage(kind="covered", booking=cover, asks=asks)
    bookings = sorted(user_coverage.bookings, key=lambda b: (b.spec.start, b.name))
    reasons = [_reason(asks, booking, user_coverage) for booking in bookings if booking.is_running(now)]
    if reasons:
        return max(reasons, key=lambda reason: _NEARNESS.index(reason.kind))
    to_come = (b for b in bookings if b.spec.start > now and b.spec.end > b.spec.start)
    later = (b for b in to_come if next(_rejections(asks, b, user_coverage.example), None) is None)
    return next((Coverage(kind="later", booking=b, asks=asks) for b in later), Coverage())


def _reason(asks: Candidate, booking: Booking, user_coverage: UserCoverage) -> Coverage:
    """Why a running booking does not cover the pod."""
    found: Kind = next(_rejections(asks, booking, user_coverage.example), "used-up")
    if found == "used-up" and (asks.uid, booking.name) in user_coverage.barred:
        found = "place"
    if found != "used-up":
        return Coverage(kind=found, booking=booking, asks=asks)
    users = [user_coverage.pods[uid] for uid, by in user_coverage.covered.items() if by.name == booking.name]
    theirs = [one for pod in users if (one := candidate(pod, held=None, models={}))]
    in_parts = booking.spec.memory is None and any(one.wants.shares for one in (asks, *theirs))
    use = BookingUse(booking.spec)
    for one in theirs:
        use.add(one.wants_of(booking.spec.model))
    ordered = tuple(sorted(users, key=lambda pod: pod.key))
    return Coverage(
        kind="used-up", booking=booking, asks=asks, users=ordered, left=None if in_parts else use.left
    )


def _rejections(asks: Candidate, booking: Booking, example: Example) -> Iterator[Kind]:
    if not is_of_namespace(asks, booking):
        yield "namespace"
    if not is_of_resource(asks, booking):
        yield "resource"
    if not is_of_model(asks, booking):
        yield "model"
    spec, wants = booking.spec, asks.wants_of(booking.spec.model)
    if spec.memory is not None and not is_within(wants, spec, example):
        yield "share"
    if (wants.width if spec.memory is None else wants.gpus) > spec.count:
        yield "count"
