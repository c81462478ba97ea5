"""Reports on a waiting pod why it waits, if kube-scheduler cannot.

The scheduler asks an extender only about nodes that pass its own filters. For a pod that is too big for every
node, or while the cluster is full, it does not ask at all, and the pod's event says only "Insufficient
nvidia.com/gpu". Here the reason is written as an Event when it becomes true, and not again while nothing
changes (an Event does not make the scheduler retry, as a change of the pod would). A reason that comes and
goes is reported again after some minutes. Where thousands of pods begin to wait at once, a round reports on
some, of all users alike: else their Events would take the API server from everybody. GPUs that are held for a
pod are reported by the reclaimer. Runs in its own thread, started by ``__main__``.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from cluster import event_reasons, names
from cluster.decide.explain import why_waiting
from cluster.decide.reasons import Reason
from cluster.decide.request import GpuRequest, RequestKey, gpu_request_of
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod
from cluster.objects.quantity import QuantityError
from cluster.objects.scheduling_gates import is_queued
from cluster.process.clock import Clock
from extender.state.cluster_state import ClusterState, Readiness

EVERY: Final = 2.0
"""Seconds between two rounds."""
MOST: Final = 100
"""Pods that are reported on in one round."""
AGAIN: Final = 600.0
"""Seconds after which a reason is reported again, if others were true in between."""

WriteEvent = Callable[[Pod, str, str], bool]
"""``(pod, reason, message)``: write an Event on the pod; never raises. False if it cannot be written now."""


class PendingReasons:
    """Reports why pods wait."""

    def __init__(
        self, state: ClusterState, clock: Clock, write_event: WriteEvent, unready_reason: Readiness
    ) -> None:
        self._state = state
        self._clock = clock
        self._write_event = write_event
        self._unready_reason = unready_reason
        self._read: dict[str, tuple[Pod, Booking | None, GpuRequest]] = {}
        """Uid -> the pod's request, and what it was read from."""
        self._reasons: dict[RequestKey, Reason | None] = {}
        self._generation = -1
        """The ledger's generation for which the cached reasons are valid."""
        self._reported: dict[str, dict[str, float]] = {}
        """Uid -> message -> when it was reported; the newest last."""

    def reconcile(self) -> None:
        """One round over all waiting pods; reports nothing while the cache cannot be trusted."""
        if self._unready_reason():
            return
        with self._state.locked() as ledger:
            waiting = dict(self._state.waiting)
            views = ledger.views(ledger.nodes()) if waiting else []
            generation = ledger.generation
            covered = self._state.cover(self._clock.now()) if waiting else {}
        self._reported = {uid: reported for uid, reported in self._reported.items() if uid in waiting}
        # Usually many pods wait with the same request, and checking all nodes takes long.
        if generation != self._generation:
            self._reasons, self._generation = {}, generation
        known = self._reasons
        self._read = {uid: read for uid, read in self._read.items() if uid in waiting}
        due: list[tuple[int, str, Reason]] = []
        of_user: Counter[str] = Counter()
        for uid, pod in waiting.items():
            request = self._request(uid, pod, covered.get(uid))
            if request is None or not (_was_rejected(pod) or is_queued(pod)):
                continue
            if request.hold:
                continue  # the reclaimer reports on it
            if request.key not in known:
                known[request.key] = why_waiting(request, views)
            reason = known[request.key]
            if reason is None or not self._is_due(uid, str(reason)):
                continue
            user = pod.metadata.annotation(names.USER) or ""
            due.append((of_user[user], uid, reason))
            of_user[user] += 1
        for _, uid, reason in sorted(due, key=lambda one: one[0])[:MOST]:
            if not self._write_event(waiting[uid], event_reasons.WAITING_FOR_GPU, str(reason)):
                return  # no other Event could be written now, either; the next round tries again
            self._note(uid, str(reason))

    def _request(self, uid: str, pod: Pod, booking: Booking | None) -> GpuRequest | None:
        """The pod's request, read again if it or its booking has changed; None if it cannot be read."""
        known = self._read.get(uid)
        if known and known[0] is pod and known[1] is booking and not (booking and known[2].share):
            return known[2]
        try:
            request = self._state.confined(gpu_request_of(pod, booking), booking, self._clock.now())
        except QuantityError:
            return None
        self._read[uid] = (pod, booking, request)
        return request

    def _is_due(self, uid: str, message: str) -> bool:
        """Whether to report the message on the pod now."""
        reported = self._reported.get(uid, {})
        if message not in reported:
            return True
        return message != next(reversed(reported)) and self._clock.monotonic() - reported[message] >= AGAIN

    def _note(self, uid: str, message: str) -> None:
        """Record that the message was reported."""
        reported = self._reported.setdefault(uid, {})
        reported.pop(message, None)
        reported[message] = self._clock.monotonic()


def _was_rejected(pod: Pod) -> bool:
    """Whether the scheduler has tried the pod and found no node: before that there is nothing to report."""
    return any(
        condition.type == "PodScheduled"
        and condition.status == "False"
        and condition.reason == "Unschedulable"
        for condition in pod.status.conditions or ()
    )
