"""Tells a waiting pod why it waits, where kube-scheduler cannot.

The scheduler asks an extender only about nodes that its own filters leave: for a pod that is too big for
every node, or while the cluster is full, it asks nobody and the pod's event speaks of "Insufficient
nvidia.com/gpu". Here the sentence is written as an Event when it becomes true, and not again while nothing
changes (an Event wakes no scheduler, as a change of the pod would). One that comes and goes is told again
after some minutes. Of GPUs that are kept for a pod the reclaimer tells. Runs in its own thread, started by
``__main__``.
"""

from collections.abc import Callable
from typing import Final

from cluster import names
from cluster.decide.explain import why_waiting
from cluster.decide.reasons import Reason
from cluster.decide.request import GpuRequest, RequestKey, gpu_request_of
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod
from cluster.objects.quantity import QuantityError
from cluster.objects.scheduling_gates import is_queued
from cluster.process.clock import Clock
from extender.state import ClusterState, Readiness

EVERY: Final = 2.0
"""Seconds between two looks."""
AGAIN: Final = 600.0
"""Seconds after which a sentence that was told before is told again, if others were true in between."""

Tell = Callable[[Pod, str, str], bool]
"""``(pod, reason, sentence)``: write an Event on the pod; never raises. False: it cannot be told now."""


class PendingReasons:
    """Looks after pods that wait."""

    def __init__(self, state: ClusterState, clock: Clock, tell: Tell, unready_reason: Readiness) -> None:
        self._state = state
        self._clock = clock
        self._tell = tell
        self._unready_reason = unready_reason
        self._read: dict[str, tuple[Pod, Booking | None, GpuRequest]] = {}
        """Uid -> what the pod wants, and what that was read from."""
        self._reasons: dict[RequestKey, Reason | None] = {}
        self._generation = -1
        """Of the nodes for which these are the reasons."""
        self._told: dict[str, dict[str, float]] = {}
        """Uid -> sentence -> when it was told; the newest last."""

    def reconcile(self) -> None:
        """One round over all waiting pods; says nothing while the picture cannot be trusted."""
        if self._unready_reason():
            return
        with self._state.locked() as ledger:
            waiting = dict(self._state.waiting)
            views = ledger.views(ledger.nodes()) if waiting else []
            generation = ledger.generation
            covered = self._state.cover(self._clock.now()) if waiting else {}
        self._told = {uid: told for uid, told in self._told.items() if uid in waiting}
        # Whoever waits mostly waits with others for the same, and looking at all nodes takes long.
        if generation != self._generation:
            self._reasons, self._generation = {}, generation
        known = self._reasons
        self._read = {uid: read for uid, read in self._read.items() if uid in waiting}
        for uid, pod in waiting.items():
            request = self._request(uid, pod, covered.get(uid))
            if request is None or not (_was_turned_down(pod) or is_queued(pod)):
                continue
            if request.hold:
                continue  # of that the reclaimer tells
            if request.key not in known:
                known[request.key] = why_waiting(request, views)
            reason = known[request.key]
            if reason is None or not self._is_news(uid, str(reason)):
                continue
            if not self._tell(pod, names.WAITING_FOR_GPU, str(reason)):
                return  # nor would the others be told now; the next round tells them
            self._note(uid, str(reason))

    def _request(self, uid: str, pod: Pod, booking: Booking | None) -> GpuRequest | None:
        """What a pod wants, read anew where it or its booking has changed; None where it cannot be read."""
        known = self._read.get(uid)
        if known and known[0] is pod and known[1] is booking:
            return known[2]
        try:
            request = gpu_request_of(pod, booking)
        except QuantityError:
            return None
        self._read[uid] = (pod, booking, request)
        return request

    def _is_news(self, uid: str, message: str) -> bool:
        """Whether the pod is to be told."""
        told = self._told.get(uid, {})
        if message not in told:
            return True
        return message != next(reversed(told)) and self._clock.monotonic() - told[message] >= AGAIN

    def _note(self, uid: str, message: str) -> None:
        """It was told."""
        told = self._told.setdefault(uid, {})
        told.pop(message, None)
        told[message] = self._clock.monotonic()


def _was_turned_down(pod: Pod) -> bool:
    """Whether the scheduler has tried the pod and found no node: before that there is nothing to tell."""
    return any(
        condition.type == "PodScheduled"
        and condition.status == "False"
        and condition.reason == "Unschedulable"
        for condition in pod.status.conditions or ()
    )
