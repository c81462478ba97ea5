"""The present requests of rejected pods: a new hold, or a booking that begins or ends, changes them.

Used by ``requeue``, which runs many times a second: a request is read again only if its pod or its booking
has changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cluster.decide.ledger.resource_versions import is_older
from cluster.decide.request import GpuRequest, gpu_request_of
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod
from cluster.objects.quantity import QuantityError
from cluster.process.clock import Clock
from extender.state.cluster_state import ClusterState, Rejection


@dataclass(frozen=True, slots=True)
class _Read:
    """A request, and what it was read from."""

    pod: Pod
    booking: Booking | None
    request: GpuRequest


class RejectedRequests:
    """The present requests of pods that filter has rejected."""

    def __init__(self, state: ClusterState, clock: Clock) -> None:
        self._state = state
        self._clock = clock
        self._read: dict[str, _Read] = {}

    def now(self, rejections: Mapping[str, Rejection]) -> dict[str, GpuRequest]:
        """Pod uid -> its request at this instant."""
        with self._state.locked():
            covered = self._state.cover(self._clock.now())
            self._read = {uid: self._one(rejection, covered) for uid, rejection in rejections.items()}
        return {uid: read.request for uid, read in self._read.items()}

    def _one(self, rejection: Rejection, covered: Mapping[str, Booking]) -> _Read:
        pod = self._newest(rejection.pod)
        is_known = rejection.uid in self._state.pods
        booking = covered.get(rejection.uid) if is_known else self._state.cover_of(pod, self._clock.now())
        known = self._read.get(rejection.uid)
        is_same = known and known.pod is pod and known.booking is booking
        if known and is_same and not (booking and known.request.share):  # that depends on other pods, too
            return known
        try:
            request = self._state.confined(gpu_request_of(pod, booking), booking, self._clock.now())
        except QuantityError:
            request = rejection.request
        return _Read(pod=pod, booking=booking, request=request)

    def _newest(self, seen: Pod) -> Pod:
        """The pod as we know it, or as filter saw it if the scheduler's watch is ahead of ours."""
        known = self._state.pods.get(seen.metadata.uid)
        return seen if known is None or is_older(known.metadata, seen.metadata) else known
