"""Removes our scheduling gate from pods whose turn it is (``cluster.decide.queueing``).

No decision depends on this process's memory for correctness: it measures how long an ungated pod may take,
and a process that restarts does not ungate a pod too early because of it.
"""

from collections.abc import Iterable
from typing import Any, Final

import structlog

from booking.controller.reclaimer.context import ReclaimerContext
from booking.controller.reclaimer.recent_requests import RecentRequests
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.eviction.settings import EvictionSettings
from cluster import claim_names
from cluster.decide.queueing import GateQueue, Order, Step, step, ungate_all
from cluster.kube.errors import ApiError, Conflict, NotFound
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod
from cluster.objects.scheduling_gates import other_gates, out_of_line

log = structlog.get_logger(__name__)

BOUND_WITHIN: Final = 5.0
"""Seconds that the scheduler has to bind a pod for which there is room; then others are ungated for it."""
UNKNOWN_AT_MOST: Final = 60.0
"""Seconds for which pods wait while it is unknown what is free; then all of them are ungated."""
RESTS: Final = 4
"""The next decision waits this many times the duration of the last: the thread has more urgent work."""


class QueueGates:
    """Manages pods behind our gate. Not thread-safe."""

    def __init__(self, context: ReclaimerContext, terms: EvictionSettings, order: Order) -> None:
        self._context = context
        self._clock = context.clock
        self._is_on = terms.queue_gate
        self._order = order
        self._recent_requests = RecentRequests(context.clock)
        self._expected: dict[tuple[str, str], float] = {}
        """(uid of an ungated pod, node) -> since when there has been room for it there."""
        self._unbound: frozenset[tuple[str, str]] = frozenset()
        """(uid, node) of pods that were not bound there in time; kept while they wait."""
        self._seen: list[Any] = []
        """What the last step was decided on, if it ungated no pod."""
        self._next = 0.0
        """When the next step may be decided."""
        self._unknown_since: float | None = None
        """Since when it is unknown what is free."""

    def reconcile(
        self, snapshot: ReclaimerSnapshot, *, without_a_turn: Iterable[Pod] = (), joining: Iterable[Pod] = ()
    ) -> None:
        """One step; what fails is tried again.

        Args:
            snapshot: this instant. Where it gives turns, only pods that need none are ungated here.
            without_a_turn: those that no turn can serve.
            joining: those that wait in line from now on, and have no gate.
        """
        self._unknown_since = None
        for pod in joining:
            if self._recent_requests.is_due(pod.metadata.uid):
                self._line_up(pod)
        queued = list(snapshot.queued.values())
        if not queued:
            self._forget()
        elif snapshot.gives_turns:
            booked = [pod for pod in queued if pod.metadata.uid in snapshot.cover]
            self._ungate(ungate_all([*booked, *without_a_turn], self._order))
        elif not self._is_on:
            self._ungate(ungate_all(queued, self._order))
        else:
            self._advance(snapshot)

    def reconcile_unknown(self, pods: Iterable[Pod]) -> None:
        """It is unknown what is free: after a while all are ungated. Args: pods: as seen last."""
        now = self._clock.monotonic()
        if self._unknown_since is None:
            self._unknown_since = now
        if now - self._unknown_since >= UNKNOWN_AT_MOST:
            self._ungate(ungate_all(pods, self._order))

    def stop_leading(self) -> None:
        """Another replica leads: what was measured here means nothing."""
        self._unknown_since = None
        self._forget()

    def _forget(self) -> None:
        self._expected, self._unbound, self._seen = {}, frozenset(), []

    def _advance(self, snapshot: ReclaimerSnapshot) -> None:
        begun = self._clock.monotonic()
        if begun < self._next:
            return
        waiting = [pod for pod in snapshot.pods.values() if not pod.spec.node_name]
        self._give_up(waiting)
        seen = _all_that_counts(snapshot, waiting, self._unbound)
        if seen == self._seen:
            return
        found = step(
            GateQueue(
                pods=waiting,
                node_snapshots=snapshot.node_snapshots,
                nodes=snapshot.nodes,
                cover=snapshot.cover,
                unbound=self._unbound,
                order=self._order,
            )
        )
        now = self._clock.monotonic()
        self._next = now + RESTS * (now - begun)
        self._expected = {pair: self._expected.get(pair, now) for pair in found.expected.items()}
        self._ungate(found)
        self._seen = [] if found.ungated else seen

    def _give_up(self, waiting: list[Pod]) -> None:
        """Give up on a node where a pod has had room for too long without being bound."""
        now, uids = self._clock.monotonic(), {pod.metadata.uid for pod in waiting}
        late = {pair for pair, since in self._expected.items() if now - since >= BOUND_WITHIN}
        kept = {pair for pair in self._unbound | late if pair[0] in uids}
        if kept != self._unbound:
            self._unbound = frozenset(kept)

    def _ungate(self, found: Step) -> None:
        for pod in found.ungated:
            if not self._recent_requests.is_due(pod.metadata.uid):
                continue
            try:
                self._lift(pod)
            except ApiError as error:
                self._recent_requests.forget(pod.metadata.uid)
                self._context.failures.note("queue gate", pod.key, error)
                return

    def _line_up(self, pod: Pod) -> None:
        meta = pod.metadata
        guard = {"uid": meta.uid, "resourceVersion": meta.resource_version}  # it may have been bound since
        body = {"metadata": {**guard, "annotations": {claim_names.IN_LINE: "true"}}}
        try:
            self._context.kube.patch(PODS, meta.name, body, namespace=meta.namespace)
        except (Conflict, NotFound):
            return
        except ApiError as error:
            self._recent_requests.forget(meta.uid)
            self._context.failures.note("queue gate", pod.key, error)
            return
        log.info("a pod whose claims came after it waits in line", pod=pod.key, uid=meta.uid)

    def _lift(self, pod: Pod) -> None:
        meta, others = pod.metadata, [{"name": name} for name in other_gates(pod)]
        # Another of several gates may be removed at the same time; if ours is the only one, other changes do
        # not matter.
        guard = {"uid": meta.uid} | ({"resourceVersion": meta.resource_version} if others else {})
        body: dict[str, Any] = {"metadata": guard, "spec": {"schedulingGates": others or None}}
        if change := out_of_line(pod):
            body = {"metadata": {**guard, "annotations": change}}
        try:
            self._context.kube.patch(PODS, meta.name, body, namespace=meta.namespace)
        except (Conflict, NotFound):
            return
        self._context.metrics.ungated_pods.inc()
        log.info("the queue gate was removed from a pod", pod=pod.key, uid=meta.uid)


def _all_that_counts(
    snapshot: ReclaimerSnapshot, waiting: list[Pod], unbound: frozenset[tuple[str, str]]
) -> list[Any]:
    """All inputs of a step: the same objects where nothing has changed, so cheap to compare."""
    agents = [snapshot.node_snapshots[name][1] for name in snapshot.node_snapshots]
    cover = [snapshot.cover.get(pod.metadata.uid) for pod in waiting]
    return [
        list(snapshot.node_snapshots.views.values()),
        agents,
        list(snapshot.nodes.values()),
        waiting,
        cover,
        unbound,
    ]
