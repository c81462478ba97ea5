"""The extender's cache of the cluster: the cache that all parts use, with what only the extender needs.

Reflectors write it and the verbs read it, under the cache's one lock.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from cluster import names
from cluster.cache import BookedNodes, BookingPlans, ClaimOptions, ClusterCache, NodeSnapshot
from cluster.cache.pods import gpu_pod
from cluster.decide.answer_windows import LARGEST
from cluster.decide.ledger import SOURCES, NodeView
from cluster.decide.ledger.holdings import Source
from cluster.decide.ledger.liveness import AgentState
from cluster.decide.ledger.resource_versions import is_older, version_is_older
from cluster.decide.placement import NoPlaceError, would_hold
from cluster.decide.predicates import BOOKED_BY_OTHERS, rejection
from cluster.decide.protection import never_evicted_reason
from cluster.decide.reasons import Reason
from cluster.decide.request import GpuRequest, RequestKey, gpu_request_of
from cluster.decide.serving import (
    KubeletRejection,
    Serving,
    awaits_answer,
    is_short,
)
from cluster.kube.resources import NODES, PODS, TAINT_RULES
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod, is_live
from cluster.objects.quantity import QuantityError
from cluster.objects.share_request import SPREAD
from cluster.process.clock import Clock
from extender.state.bind_queue import BindQueue
from extender.state.equivalence_cache import EquivalenceCache
from extender.state.hold_verdicts import HoldVerdicts
from extender.state.node_sets import NodeSets
from extender.state.soft_reservations import SECONDS, Holdings, SoftReservations
from extender.state.spoiled_devices import SpoiledDevices
from extender.state.turns import Turns
from extender.state.verb_priority import VerbPriority

__all__ = ["ClusterState", "NodeSnapshot", "Readiness", "Rejection"]

REMEMBERED: Final = 20_000
"""Maximum number of pods to keep that filter has seen and that may still be bound."""

KUBELET_REJECTIONS: Final = 1_000
"""Maximum number of rejections by kubelets that wait to be reported."""

VIEWS_BESIDE: Final = 200
"""Maximum number of nodes whose views with soft reservations are kept."""

AT_A_TIME: Final = 20
"""Number of pods of a list to apply before a request of kube-scheduler gets its turn."""

NodeRejection = Callable[[str], Reason | None]

Readiness = Callable[[], str | None]
"""Returns why the cache cannot be trusted; None if it can."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """The nodes that filter has rejected for a pod."""

    pod: Pod
    """The pod as filter saw it."""
    request: GpuRequest
    """The pod's request at that time."""
    nodes: frozenset[str]
    seen: int
    """Number of the last change of a node (``EquivalenceCache.number``) that the answer includes."""
    is_booked_by_others: bool = False
    """Whether it was refused GPUs that are guaranteed to bookings."""

    @property
    def uid(self) -> str:
        """Uid of the pod."""
        return self.pod.metadata.uid


class ClusterState(ClusterCache):
    """The cache, the pods that wait for us, and what filter has seen and answered."""

    def __init__(
        self,
        clock: Clock,
        scheduler: str = names.SCHEDULER_NAME,
        *,
        home: str = names.NAMESPACE,
        sources: Sequence[Source] = SOURCES,
        placement: str = names.PLACEMENTS[0],
        claims: ClaimOptions | None = None,
        bind_window: int = LARGEST,
    ) -> None:
        """An empty cache.

        Args:
            clock: for ages.
            scheduler: ``schedulerName`` of the pods that wait for us.
            home: the product's namespace.
            sources: where it is written what a pod holds.
            placement: that of pods that request none.
            claims: how ResourceClaims are read; None where they cannot be booked.
            bind_window: how many pods may be on their way to a node at one time, at most.
        """
        self._spreads: Final = placement == SPREAD
        self.serving: Final = Serving(bind_window)
        self.priority: Final = VerbPriority(clock)
        """Lets threads that read events wait while kube-scheduler is answered."""
        super().__init__(
            clock,
            home=home,
            at_a_time=AT_A_TIME,
            give_way=self.priority.give,
            liveness=self.serving,
            sources=sources,
            claims=claims,
        )
        self._scheduler, self._unanswered = scheduler, dict[str, float]()
        self._booking_plans, self.index = BookingPlans(self), EquivalenceCache(self, clock)
        """Which nodes fit which request."""
        pods = self.of(PODS)
        self.waiting: Final = pods.index(self._waits).live
        """Uid -> pod of ours that requests GPUs and is not bound."""
        self.rejections: dict[str, Rejection] = {}
        """Uid -> the last answer of filter, if it rejected a node."""
        self._node_sets, self._seen = NodeSets(), OrderedDict[str, Pod]()
        self.rejection_changes = 0
        """Grows whenever a rejection comes or goes, or its pod changes."""
        self.kubelet_rejections: deque[KubeletRejection] = deque(maxlen=KUBELET_REJECTIONS)
        """Rejections of kubelets that have not been reported yet."""
        self.soft = SoftReservations(clock)
        """Devices that pods whose bind has not arrived yet are about to get."""
        self.hold_verdicts, self.bind_queue = HoldVerdicts(clock), BindQueue(clock)
        self._views_beside: dict[str, tuple[NodeView, Holdings, NodeView]] = {}
        """Node -> its view, what is reserved there, and the view with both; some may be old."""
        self._verdicts_beside: dict[str, tuple[tuple[NodeView, AgentState, RequestKey], bool]] = {}
        """Node -> such a view, its agent, and a request; and whether that fits there."""
        self._turns = Turns(self.renewals, clock.monotonic)
        self._spoiled = SpoiledDevices(self.of(TAINT_RULES), clock, claims.driver) if claims else None
        pods.observe(self._note_pod)
        pods.observe_lists(self._drop_missing)
        self.of(NODES).observe(self._note_node)

    def request(self, pod: Pod) -> GpuRequest:
        """The pod's request at this instant, from its own spec and the booking that covers it.

        Raises:
            QuantityError: an amount of GPUs cannot be read.
        """
        is_owned = bool(pod.metadata.annotation(names.USER))
        now = self.clock.now()
        booking = self.cover_of(pod, now) if is_owned else None
        found = self.confined(gpu_request_of(pod, booking), booking, now)
        if found.allocated_on and self._spoiled:
            found = replace(found, spoiled=found.allocated & self._spoiled.on(found.allocated_on))
        return found.spread() if self._spreads and not pod.metadata.annotation(names.PLACEMENT) else found

    def plan_rejection(self, pod: Pod, request: GpuRequest) -> NodeRejection:
        """A function: node -> why other bookings keep the pod off it; None if they do not.

        Applies to booked pods, and to pods that are never evicted: all others leave when a booked one needs
        their devices.
        """
        return self.plan_rejection_or_none(pod, request) or (lambda _node: None)

    def plan_rejection_or_none(self, pod: Pod, request: GpuRequest) -> NodeRejection | None:
        """As ``plan_rejection``; None if no node would be rejected."""
        now, need = self.clock.now(), request.devices
        booking = self.cover_of(pod, now)
        if not need:
            return None
        if booking is None:
            stays = self._stays(pod) and not request.reserves
            return self._permanent_rejection(pod, request) if stays else None
        places, hold_node = self._booking_plans.places(now), request.hold.node if request.hold else None
        if booking.spec.model not in places.checks:
            return None
        return lambda node: (
            None if places.allow(booking, node, need, hold_node=hold_node) else BOOKED_BY_OTHERS
        )

    def _stays(self, pod: Pod) -> bool:
        return never_evicted_reason(pod, namespaces=self.namespaces, home=self.home) is not None

    def _permanent_rejection(self, pod: Pod, request: GpuRequest) -> NodeRejection:
        permanent = self._booking_plans.permanent_pods(self.clock.now())
        decided = self.decided(pod.metadata.uid)
        return lambda node: (
            None
            if node == decided or permanent.allows_permanent(node, request.takes, request.models)
            else BOOKED_BY_OTHERS
        )

    def waits_its_turn(self, pod: Pod, request: GpuRequest) -> bool:
        """Whether the pod has no booking, and others without one wait in line for what it would take."""
        with self.locked():
            return self._turns.must_wait(request) and self.cover_of(pod, self.clock.now()) is None

    def fitting(self, request: GpuRequest, nodes: Collection[str]) -> list[str]:
        """The nodes, among these, on which a pod fits now, other bookings aside."""
        alone = {request.hold.node} if request.hold else self.apart(request.uid)
        found: list[str] = []
        if not request.hold:
            with self.index.class_of(request) as (equivalence, _):
                found = [name for name in nodes if name in equivalence.fitting and name not in alone]
        some = [name for name in alone if name in nodes]
        return found + [name for name in some if self.evaluate(request, name) is None]

    def evaluate(self, request: GpuRequest, node: str) -> Reason | None:
        """Why a pod does not fit on a node, computed for this pod alone.

        Devices that a bind without an answer yet has given the pod itself do not count as held.
        """
        return rejection(request, *self._snapshot_for(request, node))

    def reserve_for_bind(self, uid: str, node: str, seconds: float) -> None:
        """Reserve softly for a pod whose bind to a node has arrived and waits for so many seconds at most."""
        pod = self.remembered(uid)
        if pod is not None:
            with suppress(QuantityError):
                self.reserve_softly(self.request(pod), node, seconds)

    def reserve_softly(self, request: GpuRequest, node: str, seconds: float = SECONDS) -> None:
        """Reserve devices softly on a node to which a pod will probably be bound."""
        if not request.demand or request.hold or names.CLAIM_RESOURCE in request.demand:
            return  # of claims kube-scheduler itself knows what it has given away
        with self.locked() as ledger:
            view = ledger.view(node)
        if reserved := self.soft.of_others(request.uid).get(node, ()):
            view = self._beside(view, reserved)
        with suppress(NoPlaceError):
            self.soft.reserve(request.uid, node, would_hold(request, view), seconds)

    def views_beside(self, reserved: Mapping[str, Holdings]) -> dict[str, NodeView]:
        """Nodes as they will be once other pods have what is reserved for them there."""
        with self.locked() as ledger:
            return {name: self._beside(ledger.view(name), parts) for name, parts in reserved.items()}

    def _beside(self, view: NodeView, reserved: Holdings) -> NodeView:
        before, parts, found = self._views_beside.get(view.name, (None, None, view))
        if before is not view or parts != reserved:
            if len(self._views_beside) >= VIEWS_BESIDE:
                self._views_beside.clear()
            found = view.holding(reserved)
            self._views_beside[view.name] = view, reserved, found
        return found

    def full_beside(self, request: GpuRequest, reserved: Mapping[str, Holdings]) -> frozenset[str]:
        """The nodes, among these, on which a pod does not fit if what is reserved is given to other pods."""
        apart, decided, key = self.apart(request.uid), self.decided(request.uid), request.key
        full = set[str]()
        for view, agent in self.snapshot(reserved):
            name = view.name
            own = view.without(request.uid) if name == decided else view
            asked = self._beside(own, reserved[name]), agent, key
            known = self._verdicts_beside.get(name)
            if name in apart or known is None or known[0][0] is not asked[0] or known[0] != asked:
                known = asked, rejection(request, asked[0], agent) is None
                if name not in apart:  # others with the same request would not be answered the same
                    if len(self._verdicts_beside) >= VIEWS_BESIDE:
                        self._verdicts_beside.clear()
                    self._verdicts_beside[name] = known
            if not known[1]:
                full.add(name)
        return frozenset(full)

    def _snapshot_for(self, request: GpuRequest, node: str) -> NodeSnapshot:
        """A node, without the holding that a bind has given the pod itself."""
        ((view, agent),) = self.snapshot((node,))
        return (view.without(request.uid) if self.decided(request.uid) == node else view), agent

    def apart(self, uid: str) -> frozenset[str]:
        """Nodes whose verdict on a pod differs from that on pods with the same request."""
        return frozenset(node for node in (self.nominated(uid), self.decided(uid)) if node)

    def agent(self, view: NodeView, now: float) -> AgentState:
        """The state of a node's agent and kubelet: nothing is bound to a node that is not "alive"."""
        found = super().agent(view, now)
        if found == "alive" and is_short(view, self.nodes.get(view.name), self.pods):
            return "kubelet-short"
        return found

    def expect_answer(self, uid: str) -> None:
        """A node has been chosen for the pod: from now on an answer of its kubelet is expected."""
        self.soft.release(uid)
        with self.locked():
            self._unanswered[uid] = self.clock.monotonic()

    def awaits_answer(self, node: str) -> bool:
        """Whether as many pods are on their way to a node, unanswered, as its window is wide."""
        with self.locked() as ledger:
            unanswered = self._unanswered
            since = [unanswered[uid] for uid in ledger.holders_on(node) if uid in unanswered]
            return self.serving.is_full(node, since, monotonic=self.clock.monotonic())

    def awaiting_nodes(self) -> frozenset[str]:
        """The nodes that take no further pod until their kubelets have answered."""
        with self.locked() as ledger:
            now, since = self.clock.monotonic(), dict[str, list[float]]()
            for uid, at in self._unanswered.items():
                if holding := ledger.holding(uid):
                    since.setdefault(holding.node, []).append(at)
            return frozenset(
                node for node, times in since.items() if self.serving.is_full(node, times, monotonic=now)
            )

    def places(self) -> BookedNodes:
        """The nodes that suit booked pods now; the same object as long as nothing has changed."""
        return self._booking_plans.places(self.clock.now())

    def planned(self, pod: Pod, request: GpuRequest) -> Callable[[str], bool] | None:
        """A function: node -> whether the pod's booking has enough planned there; None if no plan matters."""
        now = self.clock.now()
        booking, need = self.cover_of(pod, now), request.devices
        if booking is None or not need or request.allocated_on:  # what its claims have is counted already
            return None
        places = self._booking_plans.places(now)
        if booking.spec.model not in places.checks:
            return None
        return lambda node: places.planned(booking, node) >= need

    def remember(self, pod: Pod) -> None:
        """Keep the pod as filter saw it: a bind is decided on that state and no other."""
        with self.locked():
            self._seen[pod.metadata.uid] = pod
            self._seen.move_to_end(pod.metadata.uid)
            if len(self._seen) > REMEMBERED:
                oldest, _ = self._seen.popitem(last=False)
                self._drop_rejection(oldest)

    def remembered(self, uid: str) -> Pod | None:
        """The pod as filter saw it last; None if it never did, for example before a restart."""
        with self.locked():
            return self._seen.get(uid)

    def newest(self, uid: str) -> Pod | None:
        """A pod that waits for us, as our watch has it or as filter saw it: ours may lag; None for others."""
        with self._lock:
            seen, known = self._seen.get(uid), self.waiting.get(uid)
        if seen is None or known is None:
            return seen or known
        return seen if is_older(known.metadata, seen.metadata) else known

    def drop_remembered(self, uid: str) -> None:
        """The pod is gone or bound: drop what filter saw and answered."""
        with self.locked():
            self._seen.pop(uid, None)
            self._drop_rejection(uid)

    def _drop_rejection(self, uid: str) -> None:
        if self.rejections.pop(uid, None):
            self.rejection_changes += 1

    def decide_again(self, uid: str) -> None:
        """Drop what filter saw, as out of date. The rejection is kept: the pod is requeued when it fits."""
        with self.locked():
            self._seen.pop(uid, None)

    def note(self, rejection: Rejection) -> None:
        """Record the last answer of filter about a pod."""
        with self.locked():
            if rejection.nodes and rejection.uid in self._seen:
                kept = (one.nodes for one in self.rejections.values())
                nodes = self._node_sets.shared(rejection.nodes, self.index.names, kept)
                self.rejections[rejection.uid] = replace(rejection, nodes=nodes)
                self.rejection_changes += 1
            else:
                self._drop_rejection(rejection.uid)

    def _drop_missing(self, living: AbstractSet[str], version: str) -> None:
        """A list of pods came: drop what filter saw of others, even if they were never listed."""
        with self.locked():
            seen = list(self._seen.items())
        for uid, pod in seen:
            if uid not in living and not version_is_older(version, pod.metadata.resource_version):
                with self.locked():
                    if self._seen.get(uid) is pod:
                        self.drop_remembered(uid)

    def _note_node(self, name: str, before: Node | None, node: Node | None) -> None:
        if node is None:
            self.serving.forget_node(name)
        elif before is None or before.status.allocatable != node.status.allocatable:
            self.serving.note_change(name)

    def _waits(self, pod: Pod) -> Pod | None:
        if pod.spec.node_name or not is_live(pod) or pod.spec.scheduler_name != self._scheduler:
            return None
        return gpu_pod(pod)

    def _note_pod(self, uid: str, before: Pod | None, pod: Pod | None) -> None:
        self._turns.note(uid, pod)
        if pod is None:
            self._answered(uid, before.spec.node_name if before else None)
            self.drop_remembered(uid)
            return
        self._apply_kubelet_answer(pod, was_known=before is not None)
        self.rejection_changes += uid in self.rejections
        if pod.spec.node_name or not is_live(pod):
            self.drop_remembered(uid)

    def _apply_kubelet_answer(self, pod: Pod, *, was_known: bool) -> None:
        """Apply what a pod's status shows about its node."""
        uid, now = pod.metadata.uid, self.clock.monotonic()
        if awaits_answer(pod):
            self._unanswered.setdefault(uid, now)
        elif not self.decided(uid):
            if uid in self._unanswered and pod.spec.node_name and pod.status.start_time and is_live(pod):
                self.serving.windows.widen(pod.spec.node_name)
            self._answered(uid, pod.spec.node_name)
        rejection = self.serving.apply_pod(pod, was_known=was_known, monotonic=now, now=self.clock.now())
        if rejection:
            self.kubelet_rejections.append(rejection)

    def _answered(self, uid: str, node: str | None) -> None:
        """No answer is expected for a pod any more."""
        if self._unanswered.pop(uid, None) is not None and node:
            self.bind_queue.notify(node)
