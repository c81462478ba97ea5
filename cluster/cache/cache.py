"""The newest state of pods, nodes, Leases and bookings, and the one lock around it.

``handlers`` writes it, decisions read it; the ledger inside is pure and knows no threads.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Final

import structlog

from cluster import names
from cluster.cache.adoption import Adoption
from cluster.cache.cover import Cover
from cluster.cache.fair_lock import FairLock
from cluster.cache.node_snapshots import NodeSnapshot, NodeSnapshots
from cluster.cache.placement_needs import PlacementNeeds
from cluster.cache.scheduling_objects import SchedulingObjects, Store
from cluster.decide.adoption import Pair
from cluster.decide.booking_plan.supply import GONE_AFTER, SupplySnapshot
from cluster.decide.entitlement import UserCoverage
from cluster.decide.ledger import Ledger, NodeView
from cluster.decide.ledger.liveness import UNRESPONSIVE_AFTER, AgentState, Liveness
from cluster.decide.ledger.resource_versions import is_older, version_is_older
from cluster.decide.renewals import Renewals
from cluster.decide.scheduler_filters import ClusterObjects
from cluster.kube.resources import BOOKINGS, LEASES, NAMESPACES, NODES, PODS
from cluster.objects.bookings import Booking
from cluster.objects.hold import HoldError, hold_of
from cluster.objects.jobs import Job
from cluster.objects.namespaces import Namespace
from cluster.objects.nodes import Lease, Node
from cluster.objects.pods import Pod, asks_for_gpus, has_condition, is_terminal
from cluster.objects.quantity import QuantityError
from cluster.objects.scheduling_gates import is_queued
from cluster.process.clock import Clock
from cluster.process.stop_events import nothing

log = structlog.get_logger(__name__)

RECLAIMER_ANNOTATIONS: Final = frozenset(
    {
        *names.WAITING_STATE,
        names.NOTICE,
        names.BOOKING,
        names.TERMINATE_AT,
        names.WARNED,
        names.END_REQUESTED,
        names.EVICT,
    }
)
"""The reclaimer's annotations, which are written and removed as things change."""


class ClusterCache:
    """Ledger, signs of life, GPU pods and bookings, guarded by one lock."""

    def __init__(
        self,
        clock: Clock,
        *,
        home: str = names.NAMESPACE,
        at_a_time: int | None = None,
        give_way: Callable[[], None] = nothing,
        liveness: Liveness | None = None,
    ) -> None:
        """An empty cache.

        Args:
            clock: for ages.
            home: the product's own namespace.
            at_a_time: pods of a list that are applied, or removed, before other threads read; None for all
                of them. A reader in between finds each pod in its old or new state; ``reached`` may be ahead
                of some.
            give_way: called between two such portions.
            liveness: signs of life of the node agents, if more than their Leases counts.
        """
        self._clock = clock
        self._home = home
        self._lock = FairLock()
        self._at_a_time, self._give_way = at_a_time, give_way
        self._ledger = Ledger()
        self._cover = Cover(self._ledger)
        self._needs = PlacementNeeds()
        self._adoption = Adoption(self._ledger, self._cover, self._needs)
        self.liveness: Final = liveness or Liveness()
        """Signs of life of the node agents."""
        self.renewals = Renewals()
        """Renewals of all Leases in the product's namespace."""
        self.uses: dict[str, str] = {}
        """Node -> how its GPUs are used, by its agent's Lease (``cluster.objects.device_usage``)."""
        self.pods: dict[str, Pod] = {}
        """Uid -> every living pod that requests GPUs, as it is now."""
        self.annotated: dict[str, Pod] = {}
        """Uid -> those of ``pods`` with something that the reclaimer keeps up to date.

        That is one of ``RECLAIMER_ANNOTATIONS``, our gate, or a pending removal.
        """
        self.stripped: dict[str, Pod] = {}
        """Uid -> every living pod that admission has created without the GPU that it asked for."""
        self.nodes: dict[str, Node] = {}
        """Name -> node, as it is now."""
        self.blocked: dict[str, str] = {}
        """Name -> the maintenance annotation of the nodes that have one; replaced, never changed."""
        self.namespaces: dict[str, Namespace] = {}
        """Name -> Namespace, as it is now; empty where they are not followed."""
        self.jobs: Final = Store[Job](self._lock, nothing)
        """All Jobs; none where they are not followed. No decision waits for their changes alone."""
        self.reached: dict[str, str] = {}
        """Kind -> the newest resourceVersion that was reported of it."""
        self._watchers: list[Callable[[], None]] = []
        self._scheduling_objects: SchedulingObjects | None = None

    @contextmanager
    def locked(self) -> Iterator[Ledger]:
        """The ledger, with exclusive access to it and to everything else in here."""
        with self._lock:
            yield self._ledger

    def on_change(self, notify: Callable[[], None]) -> None:
        """Register a callback that is called without arguments after each change.

        It must be quick, and must not raise.
        """
        self._watchers.append(notify)

    def keep_scheduling_objects(self) -> SchedulingObjects:
        """Also keep other pods and what pods mount, for ``cluster_objects``; call before anything is read."""
        self._scheduling_objects = SchedulingObjects(self._lock, self._changed)
        return self._scheduling_objects

    # --- reading -------------------------------------------------------------------------------------
    def snapshot(self, names: Iterable[str]) -> list[NodeSnapshot]:
        """Some nodes at one instant."""
        with self._lock:
            self.serve_nominated()
            now = self._clock.monotonic()
            return [(view, self.agent(view, now)) for view in self._ledger.views(names)]

    def agent(self, view: NodeView, now: float) -> AgentState:
        """The state of a node's agent; the lock is held. Subclasses that know more of nodes extend it."""
        return self.liveness.state(view.name, monotonic=now)

    def node_snapshots(self) -> NodeSnapshots:
        """All nodes at this instant; reading it later needs no lock."""
        with self._lock:
            self.serve_nominated()
            return self._node_snapshots()

    def serve_nominated(self) -> None:
        """Update the models that nominated pods are meant to get, since bookings begin and end."""
        with self._lock:
            if uids := self._ledger.nominated & self.pods.keys():
                now = self._clock.now()
                cover = {uid: self.cover_of(self.pods[uid], now) for uid in uids}
                self._ledger.serve({uid: by.spec.model for uid, by in cover.items() if by})

    def _node_snapshots(self) -> NodeSnapshots:
        with self._lock:
            views, liveness = self._ledger.all_views(), self.liveness.copy()
            return NodeSnapshots(views, liveness, monotonic=self._clock.monotonic())

    @property
    def bookings(self) -> Mapping[str, Booking]:
        """Name -> Booking; replaced, never changed."""
        return self._cover.bookings

    def cover(self, now: datetime) -> dict[str, Booking]:
        """Pod uid -> the booking that covers it at this instant."""
        with self._lock:
            return self._cover.all(now, self.barred(now))

    def cover_of(self, pod: Pod, now: datetime) -> Booking | None:
        """The booking that covers this pod at this instant."""
        if not pod.metadata.annotation(names.USER):
            return None  # without waiting for the lock: a pod without an owner has no booking
        with self._lock:
            if not self._cover.may_cover(pod, now):
                return None
            return self._cover.user_coverage(pod, now, self.barred(now)).covered.get(pod.metadata.uid)

    def user_coverage(self, pod: Pod, now: datetime) -> UserCoverage:
        """The bookings and pods of this pod's user, including the pod, and which booking covers which pod."""
        with self._lock:
            return self._cover.user_coverage(pod, now, self.barred(now))

    def barred(self, now: datetime) -> frozenset[Pair]:
        """(uid, booking) of running pods that a booking does not cover on their present node (law L5)."""
        with self._lock:
            self.placement_needs()
            return self._adoption.barred(now, self.pods, lambda cover: self.supply_snapshot(now, cover))

    def placement_needs(self) -> PlacementNeeds:
        """Whether places matter, as of now."""
        with self._lock:
            self._needs.update(self.bookings, self.blocked)
            return self._needs

    def supply_snapshot(self, now: datetime, cover: Mapping[str, Booking]) -> SupplySnapshot:
        """The supply for bookings at this instant; reading it later needs no lock."""
        with self._lock:
            node_snapshots = self._node_snapshots()
            return SupplySnapshot(
                now=now,
                views=node_snapshots.views,
                pods=dict(self.pods),
                cover=cover,
                namespaces=self.namespaces,
                home=self._home,
                quiet=node_snapshots.quiet(UNRESPONSIVE_AFTER),
                gone=node_snapshots.quiet(GONE_AFTER),
            )

    def cluster_objects(self) -> ClusterObjects:
        """The cluster as a pod to be placed would find it; without ``keep_scheduling_objects`` only nodes."""
        with self._lock:
            nodes = dict(self.nodes)
            kept = self._scheduling_objects
            return kept.cluster_objects(nodes, self.namespaces) if kept else ClusterObjects(nodes=nodes)

    # --- writing -------------------------------------------------------------------------------------
    def replace_pods(self, items: Sequence[Pod], version: str) -> None:
        """Take over all living pods as of this version. Pods read separately since are newer, and stay."""
        living = {pod.metadata.uid for pod in items}
        portion = self._at_a_time or max(1, len(items))
        # The devices of a removed pod may be another pod's by now: removals come last.
        for begin in range(0, len(items) - portion, portion):
            with self._lock:
                for pod in items[begin : begin + portion]:
                    self._apply(pod)
            self._give_way()
        with self._lock:
            rest = items[(len(items) - 1) // portion * portion :] if items else ()
            for pod in rest:
                self._apply(pod)
            self._reach(PODS.plural, version)
            gone = list(self._ledger.pods - living)
            at_once = self._at_a_time or len(gone)
            for uid in gone[:at_once]:
                self._forget(uid, version)
        for begin in range(at_once, len(gone), portion):
            self._give_way()
            with self._lock:
                for uid in gone[begin : begin + portion]:
                    self._forget(uid, version)
        self._changed()

    def apply_pod(self, pod: Pod) -> None:
        """A pod is new or has changed; a state older than the known one is ignored."""
        with self._lock:
            self._apply(pod)
        self._changed()

    def remove_pod(self, pod: Pod) -> None:
        """A pod is gone or has ended."""
        with self._lock:
            self._reach(PODS.plural, pod.metadata.resource_version)
            self._forget(pod.metadata.uid, pod.metadata.resource_version)
        self._changed()

    def replace_nodes(self, items: Sequence[Node], version: str = "") -> None:
        """All nodes, as of this version."""
        with self._lock:
            self._reach(NODES.plural, version)
            for name in set(self.nodes) - {node.metadata.name for node in items}:
                self._forget_node(name)
            for node in items:
                self._apply_node(node)
        self._changed()

    def apply_node(self, node: Node) -> None:
        """A node is new or has changed; a state older than the known one is ignored."""
        with self._lock:
            self._apply_node(node)
        self._changed()

    def remove_node(self, node: Node) -> None:
        """A node is gone."""
        with self._lock:
            self._reach(NODES.plural, node.metadata.resource_version)
            self._forget_node(node.metadata.name)
        self._changed()

    def replace_namespaces(self, items: Sequence[Namespace], version: str = "") -> None:
        """All Namespaces, as of this version."""
        with self._lock:
            self._reach(NAMESPACES.plural, version)
            self.namespaces = {one.metadata.name: one for one in items}
        self._changed()

    def apply_namespace(self, namespace: Namespace) -> None:
        """A Namespace is new or has changed; a state older than the known one is ignored."""
        name = namespace.metadata.name
        with self._lock:
            self._reach(NAMESPACES.plural, namespace.metadata.resource_version)
            known = self.namespaces.get(name)
            if known is None or not is_older(namespace.metadata, known.metadata):
                self.namespaces = {**self.namespaces, name: namespace}
        self._changed()

    def remove_namespace(self, namespace: Namespace) -> None:
        """A Namespace is gone."""
        with self._lock:
            self._reach(NAMESPACES.plural, namespace.metadata.resource_version)
            gone = namespace.metadata.name
            self.namespaces = {name: one for name, one in self.namespaces.items() if name != gone}
        self._changed()

    def replace_bookings(self, items: Sequence[Booking], version: str = "") -> None:
        """All Booking objects, as of this version."""
        with self._lock:
            self._reach(BOOKINGS.plural, version)
            self._cover.replace_bookings(items, version)
        self._changed()

    def apply_booking(self, booking: Booking) -> None:
        """A Booking is new or has changed; a state older than the known one is ignored."""
        with self._lock:
            self._reach(BOOKINGS.plural, booking.metadata.resource_version)
            self._cover.apply_booking(booking)
        self._changed()

    def remove_booking(self, booking: Booking) -> None:
        """A Booking is gone."""
        with self._lock:
            self._reach(BOOKINGS.plural, booking.metadata.resource_version)
            self._cover.remove_booking(booking)
        self._changed()

    def replace_leases(self, items: Sequence[Lease], version: str = "") -> None:
        """All Leases of the product's namespace. They change all the time: watchers are not notified."""
        present = {lease.metadata.name for lease in items}
        with self._lock:
            self._reach(LEASES.plural, version)
            for name in set(self.renewals.names()) - present:
                self._forget_lease(name)
            for lease in items:
                self.apply_lease(lease)

    def apply_lease(self, lease: Lease) -> None:
        """A Lease was created or renewed; a state older than the known one is ignored."""
        with self._lock:
            monotonic, now = self._clock.monotonic(), self._clock.now()
            self._reach(LEASES.plural, lease.metadata.resource_version)
            self.liveness.apply_lease(lease, monotonic=monotonic, now=now)
            self.renewals.apply_lease(lease, monotonic=monotonic, now=now)
            if self.renewals.lease(lease.metadata.name) is lease:
                self._note_use(lease)

    def remove_lease(self, lease: Lease) -> None:
        """A Lease is gone."""
        with self._lock:
            self._reach(LEASES.plural, lease.metadata.resource_version)
            self._forget_lease(lease.metadata.name)

    def _reach(self, kind: str, version: str) -> None:
        known = self.reached.get(kind)
        if version and (not known or version_is_older(known, version)):
            self.reached[kind] = version

    def _changed(self) -> None:
        for notify in self._watchers:
            notify()

    def _apply(self, pod: Pod) -> bool:
        """Apply one pod; the lock is held. Subclasses that keep more about pods extend it.

        Returns:
            False if the state is older than the known one, or the pod was deleted.
        """
        if not self._ledger.apply_pod(pod):
            return False
        uid = pod.metadata.uid
        self._reach(PODS.plural, pod.metadata.resource_version)
        if self._scheduling_objects:
            self._scheduling_objects.apply_pod(pod)
        before = self.pods.get(uid)
        self._unlist(uid)
        if not is_terminal(pod) and _asks(pod):
            self.pods[uid] = pod
            if _is_annotated(pod):
                self.annotated[uid] = pod
            self._cover.list_pod(pod)
            _log_bad_hold(pod, before)
        elif not is_terminal(pod) and pod.metadata.annotation(names.STRIPPED):
            self.stripped[uid] = pod
        return True

    def _forget(self, uid: str, version: str) -> bool:
        """Remove one pod; the lock is held. Subclasses that keep more about pods extend it.

        Returns:
            False if a newer state is known, which stays.
        """
        self._ledger.forget_pod(uid, version)
        if self._ledger.knows(uid):
            return False
        if self._scheduling_objects:
            self._scheduling_objects.forget_pod(uid)
        self._unlist(uid)
        return True

    def _unlist(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        self.annotated.pop(uid, None)
        self.stripped.pop(uid, None)
        if pod:
            self._cover.unlist_pod(pod)

    def _apply_node(self, node: Node) -> None:
        if self._ledger.apply_node(node):
            self._reach(NODES.plural, node.metadata.resource_version)
            self.nodes[node.metadata.name] = node
            self._note_blocks(node.metadata.name, node.metadata.annotation(names.BLOCKS) or "")

    def _note_blocks(self, node: str, text: str) -> None:
        if self.blocked.get(node, "") != text:
            others = {name: known for name, known in self.blocked.items() if name != node}
            self.blocked = {**others, node: text} if text else others

    def _forget_lease(self, name: str) -> None:
        self.liveness.forget_lease(name)
        self.renewals.forget_lease(name)
        self.uses.pop(names.node_of_lease(name) or "", None)

    def _note_use(self, lease: Lease) -> None:
        node, text = names.node_of_lease(lease.metadata.name), lease.metadata.annotation(names.USE)
        if node and text:
            self.uses[node] = text
        elif node:
            self.uses.pop(node, None)

    def _forget_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self._note_blocks(name, "")
        self._ledger.forget_node(name)


def _is_annotated(pod: Pod) -> bool:
    notes = pod.metadata.annotations or ()
    return (
        not RECLAIMER_ANNOTATIONS.isdisjoint(notes)
        or is_queued(pod)
        or has_condition(pod, names.DISRUPTION_TARGET)
    )


def _asks(pod: Pod) -> bool:
    try:
        return asks_for_gpus(pod)
    except QuantityError:
        return False


def _log_bad_hold(pod: Pod, before: Pod | None) -> None:
    """Log, once, a hold that cannot be read; such a hold is ignored."""
    if before and before.metadata.annotation(names.HOLD) == pod.metadata.annotation(names.HOLD):
        return
    try:
        hold_of(pod)
    except HoldError as error:
        log.warning("the hold on a pod cannot be read and is ignored", pod=pod.key, error=str(error))
