"""Ending pods with their booking: decided once per booking, written on it, then carried out (law L6).

The pods that end are those that were covered at the last instant before the end, unless the settings only
make such pods evictable. The same decision says whether they come back: settings that change later apply to
later bookings. Nothing is decided or ended while the Booking objects may be outdated: their mirror must have
renewed its Lease within a minute, and the Booking itself is read from the API server before a pod is ended.
Nor is anything decided before our watch of pods has shown that a covered pod is on a node. What refuses the
end of a pod is told on the pod, and it is tried again after growing pauses.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import structlog

from booking.controller.reclaimer.context import ReclaimerContext
from booking.controller.reclaimer.ending import end_action
from booking.controller.reclaimer.ending.refused_evictions import RefusedEvictions
from booking.controller.reclaimer.evictions.comeback import AS_IT_WAS, is_owned
from booking.controller.reclaimer.evictions.refusals import is_overload
from booking.controller.reclaimer.evictor import EvictionCause, TooLateError
from booking.controller.reclaimer.recent_requests import RecentRequests
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.eviction.past_coverage import covered_at
from booking.eviction.settings import EvictionSettings
from cluster.decide.adoption import is_new
from cluster.kube.errors import ApiError, Conflict, NotFound, StatusError
from cluster.kube.resources import BOOKINGS, PODS
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod, is_live

log = structlog.get_logger(__name__)

ENDED_FOR: Final = 1.0
"""Seconds of one reconciliation in which pods are ended: when hundreds of bookings end at once, pods that
have left come back in between, and booked pods get the devices that are free."""
ENDED_WITHIN: Final = timedelta(minutes=2)
"""How long other pods are spared because a pod is about to end."""
_LAST_INSTANT: Final = timedelta(microseconds=1)


def is_mirror_fresh(snapshot: ReclaimerSnapshot) -> bool:
    """Whether the Booking objects are known to be up to date."""
    return snapshot.knows_bookings


def covered_at_the_end(booking: Booking, snapshot: ReclaimerSnapshot) -> tuple[str, ...]:
    """Uids of today's pods that this booking covered at its last instant and no other covers now.

    A pod that was created in the second of the end is left out, since it may be younger than the end. So is a
    pod that holds nothing yet: it continues to wait, without a booking. So is a pod on a node where this
    booking did not cover it, or where the next one does not: it had no cover to lose, or has it elsewhere.
    """
    then = _cover_at(booking.spec.end - _LAST_INSTANT, booking, snapshot)
    elsewhere = {uid for uid, _ in snapshot.barred}
    return tuple(
        sorted(
            uid
            for uid, by in then.items()
            if by.name == booking.name
            and uid not in snapshot.cover
            and uid not in elsewhere
            and _had_cover(snapshot.pods[uid], booking, snapshot)
        )
    )


def waiting_at_the_end(booking: Booking, snapshot: ReclaimerSnapshot) -> Iterator[Pod]:
    """Pods that this booking covered at its last instant and that the cache shows as not bound."""
    for uid, by in _cover_at(booking.spec.end - _LAST_INSTANT, booking, snapshot).items():
        pod = snapshot.pods[uid]
        if by.name == booking.name and not pod.spec.node_name:
            yield pod


def _had_cover(pod: Pod, booking: Booking, snapshot: ReclaimerSnapshot) -> bool:
    """Whether the booking covered a bound pod: where places matter, only a pod with its annotation counts."""
    if not pod.spec.node_name:
        return False
    return not (is_new(pod, booking) and booking.spec.model in snapshot.places.checks)


def covered_after_the_end(booking: Booking, snapshot: ReclaimerSnapshot) -> frozenset[str]:
    """Uids of today's pods that another booking of the same user covers as soon as this one ends."""
    return frozenset(_cover_at(booking.spec.end, booking, snapshot))


def _cover_at(at: datetime, booking: Booking, snapshot: ReclaimerSnapshot) -> dict[str, Booking]:
    """Uid -> the booking that covers it at an instant, of the user's pods older than the booking's end."""
    return covered_at(
        at,
        booking,
        bookings=snapshot.bookings.values(),
        pods=snapshot.pods.values(),
        views=snapshot.node_snapshots.views,
    )


def to_end(snapshot: ReclaimerSnapshot) -> list[tuple[Booking, Pod]]:
    """Live pods whose end is decided, with the booking that is over; pods covered again are spared."""
    return [
        (booking, pod)
        for booking in snapshot.bookings.values()
        if booking.spec.end <= snapshot.now
        for uid in booking.status.ending or ()
        if (pod := snapshot.pods.get(uid)) and is_live(pod) and uid not in snapshot.cover
    ]


def who_goes(booking: Booking, snapshot: ReclaimerSnapshot, terms: EvictionSettings) -> tuple[str, ...]:
    """Uids of the pods that are to end with this booking, by the current settings."""
    return tuple(
        uid for uid in covered_at_the_end(booking, snapshot) if end_action.goes(snapshot.pods[uid], terms)
    )


def about_to_end(snapshot: ReclaimerSnapshot, terms: EvictionSettings) -> frozenset[str]:
    """Uids of the pods that are ended within moments, because their booking has just ended.

    No other pod needs to lose work for devices that these release. A pod that is still there after a while
    counts like any other pod without a booking.
    """
    if not is_mirror_fresh(snapshot):
        return frozenset()
    just_over = [
        booking
        for booking in snapshot.bookings.values()
        if booking.spec.end <= snapshot.now < booking.spec.end + ENDED_WITHIN
    ]
    decided = {uid for booking in just_over for uid in booking.status.ending or ()}
    undecided = {
        uid
        for booking in just_over
        if booking.status.ending is None
        for uid in who_goes(booking, snapshot, terms)
    }
    return frozenset((decided | undecided) - snapshot.cover.keys())


class Ending:
    """Decides which pods end, and ends them. Not thread-safe."""

    def __init__(self, context: ReclaimerContext, terms: EvictionSettings) -> None:
        self._context = context
        self._kube = context.kube
        self._terms = terms
        self._recent_requests = RecentRequests(context.clock)
        self._refused = RefusedEvictions(context)
        self._checked: set[str] = set()
        """Names of the bookings already handled in the current round over all of them."""
        self._until = 0.0
        """When this reconciliation must stop; monotonic seconds."""

    def reconcile(self, snapshot: ReclaimerSnapshot) -> None:
        """Decide what is undecided, end what is decided; does nothing while the mirror's Lease is stale.

        Takes a second at most; the rest comes first in the next reconciliation.
        """
        if not is_mirror_fresh(snapshot):
            return
        self._refused.forget_all_but(snapshot.pods)
        leaving: dict[str, list[Pod]] = {}
        for booking, pod in to_end(snapshot):
            leaving.setdefault(booking.name, []).append(pod)
        undecided = (
            booking.name
            for booking in snapshot.bookings.values()
            if booking.spec.end <= snapshot.now and booking.status.ending is None
        )
        due = sorted({*leaving, *undecided})
        self._until = self._context.clock.monotonic() + ENDED_FOR
        for name in [name for name in due if name not in self._checked] or due:
            if self._is_enough():
                return
            self._checked.add(name)
            self._reconcile_booking(snapshot.bookings[name], leaving.get(name, []))
        self._checked.clear()

    def _is_enough(self) -> bool:
        return self._context.clock.monotonic() >= self._until

    def _reconcile_booking(self, booking: Booking, leaving: list[Pod]) -> None:
        if booking.status.ending is None:
            self._guarded(booking, partial(self._decide, booking))
        pods = [pod for pod in leaving if self._is_due(pod.metadata.uid)]
        if pods:
            self._guarded(booking, partial(self._end, booking, pods))

    def _is_due(self, uid: str) -> bool:
        return not self._refused.is_pausing(uid) and self._recent_requests.is_due(("end", uid))

    def _guarded(self, booking: Booking, step: Callable[[], None]) -> None:
        try:
            step()
        except ApiError as error:
            self._context.failures.note("end of a booking", booking.name, error)

    def _decide(self, booking: Booking) -> None:
        """Write once which pods end: of two concurrent writers one loses by the resourceVersion."""
        if not self._recent_requests.is_due(("decide", booking.name)):
            return
        stored = self._read(booking)
        if stored is None or stored.status.ending is not None or not self._context.may_act():
            return
        snapshot = self._context.snapshot()
        if any(self._is_bound(pod) for pod in waiting_at_the_end(stored, snapshot)):
            return  # our watch lags: a pod that it has not shown yet would never end
        ending = who_goes(stored, snapshot, self._terms)
        metadata = {"uid": stored.metadata.uid, "resourceVersion": stored.metadata.resource_version}
        status = {"ending": list(ending), "back": end_action.back(self._terms)}
        body = {"metadata": metadata, "status": status}
        try:
            self._kube.patch(BOOKINGS, stored.name, body, subresource="status")
        except (Conflict, NotFound):
            return
        log.info("a booking is over", booking=stored.name, pods_to_end=ending)

    def _end(self, booking: Booking, pods: list[Pod]) -> None:
        stored, read_at, fresh = self._reread(booking)
        for number, pod in enumerate(pods):
            # At least one pod is ended however long the reads took: otherwise none would ever be.
            if number and self._is_enough():
                self._recent_requests.forget(("end", pod.metadata.uid))
            elif stored is not None and pod.metadata.uid in fresh:
                is_valid = partial(self._is_still_ending, stored, pod.metadata.uid, read_at)
                self._guarded(booking, partial(self._evict, stored, pod, is_valid))

    def _is_still_ending(self, booking: Booking, uid: str, read_at: float) -> bool:
        """Whether the pod is still to end: where what was read is too old by now, it is read again."""
        if self._context.is_fresh(read_at):
            return True
        _, again, fresh = self._reread(booking)
        return uid in fresh and self._context.is_fresh(again)

    def _reread(self, booking: Booking) -> tuple[Booking | None, float, frozenset[str]]:
        """The Booking itself, the monotonic instant of the snapshot, and the uids of its pods to end."""
        begun = self._context.clock.monotonic()
        stored = self._read(booking)
        read_at = self._context.clock.monotonic()
        if stored is None or not self._context.is_fresh(begun):
            return None, read_at, frozenset()
        fresh = frozenset(pod.metadata.uid for _, pod in to_end(self._context.snapshot()))
        return stored, read_at, fresh & frozenset(stored.status.ending or ())

    def _evict(self, booking: Booking, pod: Pod, is_valid: Callable[[], bool]) -> None:
        why = EvictionCause(
            "ended",
            end_action.ended(pod, booking),
            self._terms.longest_grace_seconds,
            back=AS_IT_WAS if is_owned(pod) else end_action.decided_back(booking),
        )
        try:
            self._context.evictor.evict(pod, why, is_valid=is_valid)
        except TooLateError as error:
            log.info("a pod is not ended after all", pod=pod.key, reason=str(error))
            return
        except StatusError as error:
            if error.request.verb != "GET" and not is_overload(error):
                begin = f"{end_action.over(booking)} It must go, but"
                self._refused.note_error(pod, error, begin=begin)
            raise
        self._context.metrics.terminations.labels("ended").inc()
        log.info("a pod ends with its booking", pod=pod.key, uid=pod.metadata.uid, booking=booking.name)

    def _is_bound(self, pod: Pod) -> bool:
        """Whether the pod is bound, by the API server."""
        try:
            stored = self._kube.get(PODS, pod.metadata.name, namespace=pod.metadata.namespace)
        except NotFound:
            return False
        return stored.metadata.uid == pod.metadata.uid and bool(stored.spec.node_name)

    def _read(self, booking: Booking) -> Booking | None:
        """The Booking from the API server; None unless it is the same one with the same end."""
        try:
            stored = self._kube.get(BOOKINGS, booking.name)
        except NotFound:
            return None
        same = stored.metadata.uid == booking.metadata.uid and stored.spec.end == booking.spec.end
        return stored if same else None
