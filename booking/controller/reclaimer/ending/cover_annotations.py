"""Keeps ``names.BOOKING`` and ``names.TERMINATE_AT`` correct on live pods, for people and MAIA's tools.

They are output: the only decision that reads them back is the order of one user's pods. A pod is patched only
when an annotation is wrong, since every write to a waiting pod costs the scheduler a decision. A pod that
loses the annotations of a booking that is over, and does not end with it, gets an Event that explains its new
status; so does a running pod on a node where its owner's booking does not cover it.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import structlog

from booking.controller.reclaimer.context import ReclaimerContext
from booking.controller.reclaimer.ending import end_action
from booking.controller.reclaimer.recent_requests import RecentRequests
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.eviction.settings import EvictionSettings
from cluster import event_reasons, names
from cluster.kube.errors import ApiError, NotFound
from cluster.kube.resources import PODS
from cluster.objects.bookings import Booking
from cluster.objects.cover_annotations import cover_annotations_of, terminate_at
from cluster.objects.pods import Pod, is_live

log = structlog.get_logger(__name__)

_SAME: Final = timedelta(seconds=1)
"""Other tools may truncate the instants that they write to whole seconds."""
_NOT_COVERED: Final = (
    "The booking {booking} does not cover this pod on node {node}: others are guaranteed GPUs there. It stays"
    " until a booked pod needs its GPUs, and comes back with GPUs then unless it asks for something else."
    " Created again, it gets its GPUs on another node for certain."
)


def wrong(snapshot: ReclaimerSnapshot) -> Iterator[tuple[Pod, dict[str, str | None]]]:
    """Live pods with wrong annotations, and the correct values.

    A pod keeps the annotations of a booking that is over until it is decided which pods end with it: they
    record which pods were covered. A pod that will end keeps them to its end. A ``terminate-at`` without a
    booking's name beside it is MAIA's, where MAIA is honoured.
    """
    for uid, pod in {**snapshot.annotated, **{uid: snapshot.pods[uid] for uid in snapshot.cover}}.items():
        booking = snapshot.cover.get(uid)
        if (
            is_live(pod)
            and not _is_right(pod, booking, snapshot.terms)
            and (booking or not _keeps_annotations(pod, snapshot))
        ):
            yield pod, _annotations_for(booking)


def _annotations_for(booking: Booking | None) -> dict[str, str | None]:
    return {names.BOOKING: None, names.TERMINATE_AT: None} | cover_annotations_of(booking)


def _is_right(pod: Pod, booking: Booking | None, terms: EvictionSettings) -> bool:
    named = pod.metadata.annotation(names.BOOKING)
    if booking is None:
        return named is None and (terms.maia or pod.metadata.annotation(names.TERMINATE_AT) is None)
    until = terminate_at(pod)
    return named == booking.name and until is not None and abs(until - booking.spec.end) < _SAME


def _keeps_annotations(pod: Pod, snapshot: ReclaimerSnapshot) -> bool:
    booking = snapshot.bookings.get(pod.metadata.annotation(names.BOOKING) or "")
    if booking is None or booking.spec.end > snapshot.now:
        return False
    return booking.status.ending is None or pod.metadata.uid in booking.status.ending


def demoting(pod: Pod, snapshot: ReclaimerSnapshot) -> Booking | None:
    """The ended booking that covered the pod, where the pod stays without one; None for any other pod."""
    booking = snapshot.bookings.get(pod.metadata.annotation(names.BOOKING) or "")
    if booking is None or pod.metadata.uid in snapshot.cover or booking.spec.end > snapshot.now:
        return None
    return None if pod.metadata.uid in (booking.status.ending or ()) else booking


def not_covered(pod: Pod, booking: str) -> str:
    """The message for the owner of a pod that the booking does not cover on its node."""
    return _NOT_COVERED.format(booking=booking, node=pod.spec.node_name)


class CoverAnnotations:
    """Writes the annotations, and the Events about cover. Not thread-safe."""

    def __init__(self, context: ReclaimerContext) -> None:
        self._write_event = context.write_event
        self._kube = context.kube
        self._failures = context.failures
        self._recent_requests = RecentRequests(context.clock)
        self._reported: frozenset[tuple[str, str]] = frozenset()
        """``Snapshot.barred`` of the last pass: each of them has its Event."""

    def reconcile(self, snapshot: ReclaimerSnapshot) -> None:
        """Patch each pod with wrong annotations; a failed write is tried again in the next pass.

        A pod that its owner's booking does not cover where it runs gets one Event for as long as that lasts.
        """
        for pod, annotations in wrong(snapshot):
            key = (pod.metadata.uid, *annotations.values())
            if not self._recent_requests.is_due(key):
                continue
            try:
                written = self._write(pod, annotations)
            except ApiError as error:
                self._failures.note("cover annotations", pod.key, error)
                continue
            if written and (booking := demoting(pod, snapshot)):
                self._write_event(pod, event_reasons.BOOKING_ENDED, end_action.demoted(pod, booking))
        for uid, covering in sorted(snapshot.barred - self._reported):
            if (running := snapshot.pods.get(uid)) is not None:
                self._write_event(running, event_reasons.NOT_ADOPTED, not_covered(running, covering))
        self._reported = snapshot.barred

    def _write(self, pod: Pod, annotations: dict[str, str | None]) -> bool:
        """Write annotations on a pod; returns whether the pod still exists."""
        meta = pod.metadata
        body = {"metadata": {"uid": meta.uid, "annotations": annotations}}
        try:
            self._kube.patch(PODS, meta.name, body, namespace=meta.namespace)
        except NotFound:
            return False
        log.info(
            "cover annotations were written",
            pod=pod.key,
            uid=meta.uid,
            booking=annotations[names.BOOKING],
            terminate_at=annotations[names.TERMINATE_AT],
        )
        return True
