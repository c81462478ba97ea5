"""Makes kube-scheduler requeue a pod that we have rejected and that would fit now.

The scheduler and we learn of changes by two watches. When a GPU becomes free, the scheduler may learn of it
first and ask us before we know. We say no, and nothing makes it ask again: it waits for another change or for
five minutes. The same happens after changes that it does not follow at all, like that of an agent's Lease or
the end of a booking. So a pod must be tried again if a node rejected it, that node's verdict is "yes" by now,
and the scheduler has not asked about the pod for a moment.

The requeueing is triggered by touching an object of our own, a CSIStorageCapacity in our namespace that means
nothing to anything else. kube-scheduler (1.28 and later) retries pods that an extender has rejected after any
event of this kind. The pod itself is not touched: its resourceVersion guards Bindings, and the extender does
not need the permission to write pods. ``__main__`` runs this periodically in a thread of its own.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, NamedTuple

import structlog

from cluster import names
from cluster.cache import EVERYWHERE
from cluster.decide.exponential_backoff import exponential_backoff
from cluster.decide.request import GpuRequest, RequestKey
from cluster.kube.errors import ApiError, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import Resource
from cluster.objects.bookings import Booking
from cluster.objects.meta import Meta, Partial
from cluster.process.clock import Clock
from extender.pending.rejected_requests import RejectedRequests
from extender.state.cluster_state import ClusterState, Rejection

EVERY: Final = 0.01
"""Seconds between two rounds."""
EVERY_WHILE_SCHEDULING: Final = 0.1
"""``EVERY`` while the scheduler asks: it is active, and a round over thousands of pods slows filter down."""
PATIENCE: Final = 0.02
"""Seconds that the scheduler has to retry the pod by itself."""
RETRIED_AFTER: Final = 0.1
"""Seconds after which a trigger that the API server refused is tried again."""
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Seconds between two triggers for the same pod: it may be blocked by something that we do not see."""
PLAN_CHECKED_EVERY: Final = 2.0
"""Seconds between two checks of pods that were rejected for other bookings: when a booking ends, or another
GPU becomes available to it, neither the rejecting node nor any object that the scheduler follows changes."""

EVERYTHING: Final = -1
"""A number before the first change of the equivalence cache: all nodes have changed since."""
NONE: Final[frozenset[str]] = frozenset()
NEVER_JUDGED: Final = (None, None)


class RequeueTrigger(Partial, frozen=True):
    """A storage.k8s.io/v1 CSIStorageCapacity; only the fact that it changes matters."""

    metadata: Meta = Meta()


REQUEUE_TRIGGERS: Final = Resource(
    group="storage.k8s.io",
    version="v1",
    plural="csistoragecapacities",
    kind="CSIStorageCapacity",
    namespaced=True,
    type=RequeueTrigger,
)


@dataclass
class _Candidate:
    """A rejected pod that would fit now."""

    rejection: Rejection
    request: GpuRequest
    nodes: frozenset[str]
    """Nodes on which the pod was found to fit."""
    at: float
    triggers: int = 0
    """Number of triggers for it so far."""


class _Situation(NamedTuple):
    """The inputs of a round: as long as they are the same, nothing has to be checked."""

    rejection_changes: int
    """The value of ``ClusterState.rejection_changes``."""
    seen: int
    """Number of the last change of a node."""
    cover: dict[str, Booking]

    def has_same_pods(self, before: "_Situation | None") -> bool:
        """Whether the rejected pods, and the bookings that cover them, are as they were."""
        return before is not None and (self.rejection_changes, self.cover) == (
            before.rejection_changes,
            before.cover,
        )


class Requeue:
    """Triggers the requeueing of rejected pods that fit by now."""

    def __init__(self, kube: Kube, state: ClusterState, clock: Clock, *, namespace: str) -> None:
        self._kube = kube
        self._state = state
        self._clock = clock
        self._namespace = namespace
        self._seen = EVERYTHING
        self._candidates: dict[str, _Candidate] = {}
        self._next_at = float("inf")
        """When the next candidate is due."""
        self._requests = RejectedRequests(state, clock)
        self._judged: dict[str, tuple[Rejection, GpuRequest]] = {}
        self._found: dict[tuple[RequestKey, frozenset[str]], list[str]] = {}
        """Cache of this round: (request, nodes that it was filtered on) -> the nodes that fit."""
        self._places = EVERYWHERE
        self._situation: _Situation | None = None
        self._checked_at = float("-inf")
        self._booked_by_others: set[str] = set()
        """Uids of pods that would fit if their GPUs were not guaranteed to others, or it were their turn."""
        self._plan_checked_at = clock.monotonic()
        self._log = structlog.get_logger(__name__)

    def reconcile(self) -> None:
        """One round: find pods that fit by now, and trigger for those that are due."""
        now = self._clock.monotonic()
        with self._state.locked():
            if not self._state.rejections:
                self._seen, self._candidates, self._judged = EVERYTHING, {}, {}
                self._booked_by_others, self._situation = set(), None
                return
            rejection_changes = self._state.rejection_changes
            is_scheduler_active = (
                self._situation is not None and rejection_changes != self._situation.rejection_changes
            )
            if is_scheduler_active and now - self._checked_at < EVERY_WHILE_SCHEDULING:
                return
            cover = self._state.cover(self._clock.now())
        places = self._state.places()
        changed, seen = self._state.index.changed(self._seen if places is self._places else EVERYTHING)
        situation = _Situation(rejection_changes, seen, cover)
        is_quiet = situation == self._situation and places is self._places
        if is_quiet and now < self._next_at and now - self._plan_checked_at < PLAN_CHECKED_EVERY:
            return
        before, self._situation, self._found = self._situation, situation, {}
        self._checked_at = now
        with self._state.locked():
            rejections = dict(self._state.rejections)
        self._places = places
        present = self._present(rejections, is_same=situation.has_same_pods(before))
        barred = self._barred(rejections, now)
        self._candidates = {
            uid: candidate
            for uid, candidate in self._candidates.items()
            if self._is_valid(candidate, present, changed)
        }
        for uid, node in self._fitting_by_now(present, changed, barred).items():
            # A pod that could not be placed elsewhere may be placed on another node: a new candidate.
            known = self._candidates[uid].nodes if uid in self._candidates else NONE
            self._candidates[uid] = _Candidate(*present[uid], nodes=known | {node}, at=now + PATIENCE)
        self._seen, self._judged = seen, present
        self._requeue_due(now)

    def _requeue_due(self, now: float) -> None:
        """Trigger a requeue of the pods that are due."""
        due = [candidate for candidate in self._candidates.values() if now >= candidate.at]
        is_triggered = due and self._trigger()
        for candidate in due:
            if is_triggered:
                candidate.triggers += 1
                candidate.at = now + exponential_backoff(
                    candidate.triggers, first=FIRST_PAUSE, longest=LONGEST_PAUSE
                )
            else:
                candidate.at = now + RETRIED_AFTER
        self._next_at = min((candidate.at for candidate in self._candidates.values()), default=float("inf"))

    def _present(
        self, rejections: Mapping[str, Rejection], *, is_same: bool
    ) -> dict[str, tuple[Rejection, GpuRequest]]:
        """The rejected pods and their present requests, read again if pods or bookings have changed."""
        if is_same and self._judged.keys() == rejections.keys():
            return self._judged
        return {uid: (rejections[uid], request) for uid, request in self._requests.now(rejections).items()}

    def _barred(self, rejections: Mapping[str, Rejection], now: float) -> AbstractSet[str]:
        """Pods to check although nothing has changed: now and then, those rejected for other bookings."""
        if now - self._plan_checked_at < PLAN_CHECKED_EVERY:
            return NONE
        booked_by_others = {uid for uid, rejection in rejections.items() if rejection.is_booked_by_others}
        barred, self._booked_by_others = (
            booked_by_others | (self._booked_by_others & rejections.keys()),
            set(),
        )
        self._plan_checked_at = now
        return barred

    def _fitting_by_now(
        self,
        present: dict[str, tuple[Rejection, GpuRequest]],
        changed: frozenset[str],
        barred: AbstractSet[str],
    ) -> dict[str, str]:
        """Pods that fit on a node now that the node, their request or the plan has changed.

        Returns:
            Uid -> a node on which it fits; for a pod that is a candidate already, another node than before.
        """
        found: dict[str, str] = {}
        missed = self._missed(present)
        for uid, (rejection, request) in present.items():
            judged, before = self._judged.get(uid, (None, rejection.request))
            if judged is not rejection:
                before = rejection.request
            is_same = (request is before or request == before) and uid not in barred
            nodes = rejection.nodes & changed if is_same else rejection.nodes
            if judged is not rejection and is_same:
                nodes |= missed(rejection)
            if uid in self._candidates:
                nodes -= self._candidates[uid].nodes
            node = self._place(rejection, request, nodes) if nodes else None
            if node is not None:
                found[uid] = node
        return found

    def _missed(
        self, present: Mapping[str, tuple[Rejection, GpuRequest]]
    ) -> Callable[[Rejection], frozenset[str]]:
        """A function that returns the nodes that changed after an answer, but before it was noted."""
        late = [
            one.seen
            for uid, (one, _) in present.items()
            if one.seen < self._seen and self._judged.get(uid, NEVER_JUDGED)[0] is not one
        ]
        changes = self._state.index.numbered_since(min(late)) if late else {}

        def missed(rejection: Rejection) -> frozenset[str]:
            if rejection.seen >= self._seen:
                return NONE
            if changes is None:
                return rejection.nodes
            return rejection.nodes & {name for name, number in changes.items() if number > rejection.seen}

        return missed

    def _place(self, rejection: Rejection, request: GpuRequest, nodes: frozenset[str]) -> str | None:
        """One of the nodes on which the pod fits; None if it fits on none, or it is not its turn."""
        if self._state.waits_its_turn(rejection.pod, request):
            # It would be refused again at once, however often the scheduler tried.
            self._booked_by_others.add(rejection.uid)
            return None
        free = self._free(request, nodes)
        if not free:
            return None
        plan_rejection = self._state.plan_rejection(rejection.pod, request)
        found = next((name for name in free if plan_rejection(name) is None), None)
        if found is None and rejection.uid not in self._candidates:
            self._booked_by_others.add(rejection.uid)
        return found

    def _free(self, request: GpuRequest, nodes: frozenset[str]) -> list[str]:
        """The nodes on which the pod fits, other bookings aside; computed once per request."""
        if request.hold or self._state.apart(request.uid):
            return self._state.fitting(request, nodes)
        if (request.key, nodes) not in self._found:
            self._found[request.key, nodes] = self._state.fitting(request, nodes)
        return self._found[request.key, nodes]

    def _is_valid(
        self, candidate: _Candidate, present: dict[str, tuple[Rejection, GpuRequest]], changed: frozenset[str]
    ) -> bool:
        """Whether the pod still waits, was not asked about since, and still fits."""
        rejection, request = present.get(candidate.rejection.uid, (None, None))
        if rejection is not candidate.rejection or request is None:
            return False
        moved = candidate.nodes & changed
        if request is candidate.request and not moved:
            return True
        # A node on which it does not fit any more makes it a new candidate as soon as it fits there again.
        candidate.request, candidate.nodes = (
            request,
            candidate.nodes - moved.difference(self._free(request, moved)),
        )
        return self._place(rejection, request, rejection.nodes) is not None

    def _trigger(self) -> bool:
        """Touch our object; returns whether that worked."""
        touch = {"metadata": {"annotations": {names.REQUEUED_AT: self._clock.now().isoformat()}}}
        try:
            try:
                self._kube.patch(REQUEUE_TRIGGERS, names.REQUEUE_TRIGGER, touch, namespace=self._namespace)
            except NotFound:
                body = {
                    "metadata": {"name": names.REQUEUE_TRIGGER},
                    "storageClassName": names.REQUEUE_TRIGGER,
                }
                self._kube.create(REQUEUE_TRIGGERS, body, namespace=self._namespace)
        except ApiError as error:
            self._log.warning("kube-scheduler could not be made to requeue pods", error=str(error))
            return False
        self._log.info("kube-scheduler was made to requeue pods that fit now", pods=len(self._candidates))
        return True
