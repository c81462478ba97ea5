"""Warnings before a booking ends, on every pod that it covers: each once, whichever process leads (law L6).

The last warning is recorded on the pod (``names.WARNED``): the end, and how long before it. A different end
(the booking was extended, or another one covers the pod now) starts over; a pod that is late gets only the
nearest warning. One that would come in the first half of a pod's time tells nothing new and is left out.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec
import structlog

from booking.controller.reclaimer.context import ReclaimerContext
from booking.controller.reclaimer.ending import end_action
from booking.controller.reclaimer.ending.booking_ends import covered_after_the_end, is_mirror_fresh
from booking.controller.reclaimer.recent_requests import RecentRequests
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.eviction.settings import EvictionSettings
from booking.wording import instant, iso, span
from cluster import event_reasons, names
from cluster.kube.errors import ApiError, Conflict, NotFound
from cluster.kube.resources import PODS
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Warned:
    """One warning: the end of the booking, and how long before it the warning is due."""

    end: datetime
    before: timedelta


def encode_warned(warned: Warned) -> str:
    """The annotation's value: ``2026-11-23T17:00:00Z PT3600S``."""
    return f"{iso(warned.end)} {iso(warned.before)}"


def warned_of(pod: Pod) -> Warned | None:
    """The pod's last warning; None where there is none, or it cannot be parsed."""
    end, _, before = (pod.metadata.annotation(names.WARNED) or "").partition(" ")
    try:
        return Warned(
            msgspec.convert(end, datetime, strict=False), msgspec.convert(before, timedelta, strict=False)
        )
    except msgspec.ValidationError:
        return None


def timely(
    warn_before: Collection[timedelta], *, start: datetime, since: datetime, end: datetime
) -> tuple[timedelta, ...]:
    """Which warnings a pod gets: those in the second half of its time; if there are none, the last one.

    That one comes at once to a pod that begins late, but never in the first half of the booking.

    Args:
        warn_before: how long before an end warnings are due.
        start: when the booking starts.
        since: since when it covers the pod.
        end: when it ends.
    """
    half = (end - since) / 2
    late = tuple(before for before in warn_before if before <= half)
    return late if late or not warn_before else (min(*warn_before, (end - start) / 2),)


def next_warning(
    last: Warned | None, end: datetime, now: datetime, warn_before: Iterable[timedelta]
) -> Warned | None:
    """The warning that is due now, None for none.

    Args:
        last: the pod's last warning.
        end: when its booking ends.
        now: before that.
        warn_before: how long before this end the pod is warned (``timely``).
    """
    nearest = min((before for before in warn_before if end - now <= before), default=None)
    if nearest is None:
        return None
    if last is not None and last.end == end and last.before <= nearest:
        return None
    return Warned(end, nearest)


def due(snapshot: ReclaimerSnapshot, terms: EvictionSettings) -> Iterator[tuple[Pod, Booking, Warned]]:
    """Pods that must be warned now; pods that the next booking covers at once are left out."""
    found = []
    for uid, booking in snapshot.cover.items():
        pod = snapshot.pods[uid]
        start, end = booking.spec.start, booking.spec.end
        since = max(start, pod.metadata.creation_timestamp or start)
        ladder = timely(terms.warn_before, start=start, since=since, end=end)
        warned = next_warning(warned_of(pod), end, snapshot.now, ladder)
        if warned:
            found.append((pod, booking, warned))
    safe = {
        booking.name: covered_after_the_end(booking, snapshot)
        for booking in {booking.name: booking for _, booking, _ in found}.values()
    }
    for pod, booking, warned in found:
        if pod.metadata.uid not in safe[booking.name]:
            yield pod, booking, warned


def message(pod: Pod, booking: Booking, warned: Warned, terms: EvictionSettings) -> str:
    """When the booking ends, what happens to this pod then, and what to do."""
    when = f"{instant(booking.spec.end)}, in less than {span(warned.before)}"
    return f"The booking {booking.name} of this pod ends at {when}. {end_action.expected(pod, terms)}"


class EndWarnings:
    """Writes the warnings. Not thread-safe."""

    def __init__(self, context: ReclaimerContext, terms: EvictionSettings) -> None:
        self._context = context
        self._terms = terms
        self._recent_requests = RecentRequests(context.clock)

    def reconcile(self, snapshot: ReclaimerSnapshot) -> None:
        """Warn every pod that must be warned now; does nothing while the mirror's Lease is stale."""
        if not is_mirror_fresh(snapshot):
            return
        for pod, booking, warned in due(snapshot, self._terms):
            if not self._recent_requests.is_due((pod.metadata.uid, warned)):
                continue
            try:
                self._warn(pod, booking, warned)
            except ApiError as error:
                self._context.failures.note("end warning", pod.key, error)

    def _warn(self, pod: Pod, booking: Booking, warned: Warned) -> None:
        """Write the annotation, then the Event: of two leaders only one writes, and it sends the Event."""
        meta = pod.metadata
        guards = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        body = {"metadata": {**guards, "annotations": {names.WARNED: encode_warned(warned)}}}
        try:
            self._context.kube.patch(PODS, meta.name, body, namespace=meta.namespace)
        except (Conflict, NotFound):
            return  # the pod has changed: the next pass sees its new state
        self._context.write_event(
            pod, event_reasons.BOOKING_ENDS_SOON, message(pod, booking, warned, self._terms)
        )
        log.info(
            "the owner of a pod was warned of its end",
            pod=pod.key,
            booking=booking.name,
            time_left=str(warned.before),
        )
