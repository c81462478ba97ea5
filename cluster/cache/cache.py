"""The newest state of everything that one process follows, and the one lock around it.

Each kind has a store, which a reflector fills (``of``); decisions read them here. The ledger inside is pure
and knows no threads.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from cluster import names
from cluster.cache.adoption import Adoption
from cluster.cache.claims import CLAIM_KINDS, NOTHING, ClaimOptions, Claims
from cluster.cache.cover import Cover
from cluster.cache.fair_lock import Guarded
from cluster.cache.leases import KubeletLeases, Leases
from cluster.cache.node_snapshots import NodeSnapshot, NodeSnapshots
from cluster.cache.placement_needs import PlacementNeeds
from cluster.cache.pods import Pods
from cluster.cache.recent_changes import NodeChanges, RecentChanges
from cluster.cache.scheduling_objects import SchedulingObjects
from cluster.cache.slim_nodes import slim
from cluster.cache.store import Guard, Store
from cluster.decide.adoption import Pair
from cluster.decide.booking_plan.supply import GONE_AFTER, SupplySnapshot
from cluster.decide.claims.kept import kept
from cluster.decide.entitlement import UserCoverage
from cluster.decide.ledger import SOURCES, Ledger, NodeView
from cluster.decide.ledger.holdings import Source
from cluster.decide.ledger.liveness import UNRESPONSIVE_AFTER, AgentState, Liveness
from cluster.decide.request import GpuRequest
from cluster.decide.scheduler_filters import ClusterObjects
from cluster.decide.share_places import SharePlaces
from cluster.kube.resources import (
    BOOKINGS,
    CLAIM_TEMPLATES,
    DEVICE_CLASSES,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    Resource,
    T,
)
from cluster.objects.bookings import Booking
from cluster.objects.claims import PodClaims, ResourceClaim
from cluster.objects.namespaces import Namespace
from cluster.objects.nodes import Node
from cluster.objects.pods import ClaimReference, Pod, may_have_claims
from cluster.process.clock import Clock
from cluster.process.stop_events import nothing

VERSIONED: Final[tuple[Resource[Any], ...]] = (PODS, NODES, LEASES, BOOKINGS, NAMESPACES, *CLAIM_KINDS)
"""Kinds of which a decision records up to which version it has seen them."""
UNANNOUNCED: Final = frozenset({JOBS.plural})
"""Kinds for whose changes alone no decision waits: watchers are not notified."""
_KEPT: Final[Mapping[str, Callable[[Any], Any]]] = {RESOURCE_CLAIMS.plural: kept, NODES.plural: slim}
"""Kinds of which less is kept than is read: what is kept of an object."""


def _whole(obj: T) -> T:
    return obj


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
        sources: Sequence[Source] = SOURCES,
        claims: ClaimOptions | None = None,
    ) -> None:
        """An empty cache.

        Args:
            clock: for ages.
            home: the product's own namespace.
            at_a_time: pods of a list that are applied, or removed, before others read; None for all.
            give_way: called between two such portions.
            liveness: signs of life of the node agents, if more than their Leases counts.
            sources: where it is written what a pod holds.
            claims: how ResourceClaims are read; None where they cannot be booked.
        """
        self.clock: Final = clock
        self.home: Final = home
        self._guard = Guard(VERSIONED)
        self._lock = self._guard.lock
        self._ledger = Ledger(sources)
        self._guarded = Guarded(self._lock, self._ledger)
        self.liveness: Final = liveness or Liveness()
        """Signs of life of the node agents."""
        leases = Leases(self._guard, self.liveness, clock)
        self.renewals: Final = leases.renewals
        """Renewals of all Leases in the product's namespace."""
        self.uses: Final = leases.uses
        """Node -> how its GPUs are used, by its agent's Lease (``cluster.objects.device_usage``)."""
        self.over_used: Final = leases.over_used
        """Those of them that name a pod which uses more of a GPU than its share."""
        self.kubelet_leases: Final = KubeletLeases(self._guard, self.liveness, clock)
        """Signs of life of the kubelets; they count where the controller counts a node's GPUs."""
        pods = Pods(self._guard, self._ledger, at_a_time=at_a_time, give_way=give_way)
        self._stores: dict[str, Store[Any]] = {PODS.plural: pods, LEASES.plural: leases}
        self.pods: Final = pods.live
        """Uid -> every living pod that requests GPUs, as it is now."""
        self.annotated: Final = pods.annotated.live
        """Uid -> those of ``pods`` with something that the reclaimer keeps up to date."""
        self.stripped: Final = pods.stripped.live
        """Uid -> every living pod that admission has created without the GPU that it asked for."""
        self._pods, nodes = pods, self.of(NODES)
        self.nodes: Final = nodes.live
        """Name -> node, as it is now."""
        self._blocked = nodes.index(lambda node: node.metadata.annotation(names.BLOCKS) or None)
        self._namespaces = self.of(NAMESPACES)
        self._cover = Cover(self._ledger, self.of(BOOKINGS))
        self._needs = PlacementNeeds()
        self._adoption = Adoption(self._ledger, self._cover, self._needs)
        self._scheduling_objects: SchedulingObjects | None = None
        self._node_changes = NodeChanges(self._ledger)
        self._claims = self._follow_claims(claims) if claims else None
        pods.observe(self._list_pod)
        nodes.observe(self._count_node)

    def _follow_claims(self, options: ClaimOptions) -> Claims:
        claims = Claims(
            options,
            self._ledger,
            claims=self.of(RESOURCE_CLAIMS),
            classes=self.of(DEVICE_CLASSES),
            slices=self.of(RESOURCE_SLICES),
            reread=self._pods.reread,
        )
        self._pods.joined = claims.joined
        return claims

    def foreseen_claims(self, pod: Pod, read: Mapping[str, ResourceClaim] = NOTHING) -> PodClaims | None:
        """What the claims of a pod that does not exist yet will ask for, as far as their templates exist.

        ``read``: what the pod calls it -> claim, of ``unknown_claims``.
        """
        if self._claims is None:
            return None
        with self._lock:
            return self._claims.foreseen(pod, self.of(CLAIM_TEMPLATES).live, read)

    def unknown_claims(self, pod: Pod) -> tuple[ClaimReference, ...]:
        """Those of such a pod's claims that do not exist, or of which the watch has not told yet."""
        if self._claims is None:
            return ()
        with self._lock:
            return self._claims.unknown(pod, self.of(CLAIM_TEMPLATES).live)

    def is_by_claims(self, pod: Pod) -> bool:
        """Whether kube-scheduler allocates claims for a pod, whichever driver's devices they are for."""
        if self._claims is None or not may_have_claims(pod):
            return False
        with self._lock:
            return self._claims.is_by_claims(pod)

    @property
    def follows_claims(self) -> bool:
        """Whether claims can be booked."""
        return self._claims is not None

    def with_claims(self, pod: Pod) -> Pod:
        """A pod that does not come from our watch, with what its claims say, where they are followed."""
        if self._claims is None or not may_have_claims(pod):
            return pod
        with self._lock:
            return self._claims.read(pod)

    def of(self, resource: Resource[T]) -> Store[T]:
        """The store of a kind: a reflector that fills it is all that a further kind needs."""
        kind = resource.plural
        if kind not in self._stores:
            with self._lock:
                made = Store(
                    self._guard,
                    resource,
                    keep=_KEPT.get(kind, _whole),
                    notifies=kind not in UNANNOUNCED,
                    reads_ahead=kind == BOOKINGS.plural,
                )
                return self._stores.setdefault(kind, made)
        return self._stores[kind]

    def locked(self) -> Guarded[Ledger]:
        """A context: the ledger, with exclusive access to it and to everything else in here."""
        return self._guarded

    def on_change(self, notify: Callable[[], None]) -> None:
        """Register a callback that is called without arguments after each change.

        It must be quick, and must not raise.
        """
        self._guard.watchers.append(notify)

    def keep_scheduling_objects(self) -> None:
        """Also keep other pods and what pods mount, for ``cluster_objects``; call before anything is read."""
        self._scheduling_objects = SchedulingObjects(
            self.of(VOLUME_CLAIMS), self.of(VOLUMES), self.of(STORAGE_CLASSES)
        )
        self._pods.observe(self._scheduling_objects.change_pod)

    # --- reading -------------------------------------------------------------------------------------
    @property
    def queued(self) -> Mapping[str, Pod]:
        """Uid -> those of ``pods`` that are behind our gate, as it is now; changes under the lock."""
        return self._pods.queued.live

    def snapshot(self, names: Iterable[str]) -> list[NodeSnapshot]:
        """Some nodes at one instant."""
        with self._lock:
            self.serve_nominated()
            now = self.clock.monotonic()
            return [(view, self.agent(view, now)) for view in self._ledger.views(names)]

    def agent(self, view: NodeView, now: float) -> AgentState:
        """The state of a node's agent; the lock is held. Subclasses that know more of nodes extend it."""
        return self.liveness.state(view.name, monotonic=now)

    def decided(self, uid: str) -> str | None:
        """The node chosen for a pod, until the bind is seen or taken back; without waiting for the lock."""
        found = self._ledger.assumption(uid)
        return found.node if found else None

    def nominated(self, uid: str) -> str | None:
        """The node that a pod is nominated to; without waiting for the lock."""
        return self._ledger.nomination(uid)

    def node_snapshots(self) -> NodeSnapshots:
        """All nodes at this instant; reading it later needs no lock."""
        with self._lock:
            self.serve_nominated()
            return self._node_snapshots()

    def recent_changes(self, views: Mapping[str, NodeView], pods: Mapping[str, Pod]) -> RecentChanges:
        """Which nodes have changed of late; the lock is held since ``views`` and ``pods`` were read."""
        with self._lock:
            return self._node_changes.recent(views, pods)

    def serve_nominated(self) -> None:
        """Update the models that nominated pods are meant to get, since bookings begin and end."""
        with self._lock:
            if uids := self._ledger.nominated & self.pods.keys():
                now = self.clock.now()
                cover = {uid: self.cover_of(self.pods[uid], now) for uid in uids}
                self._ledger.serve({uid: by.spec.model for uid, by in cover.items() if by})

    def _node_snapshots(self) -> NodeSnapshots:
        with self._lock:
            views, liveness = self._ledger.all_views(), self.liveness.copy()
            return NodeSnapshots(views, liveness, monotonic=self.clock.monotonic())

    @property
    def bookings(self) -> Mapping[str, Booking]:
        """Name -> Booking; replaced, never changed."""
        return self._cover.bookings

    @property
    def namespaces(self) -> Mapping[str, Namespace]:
        """Name -> Namespace; empty where they are not followed; replaced, never changed."""
        return self._namespaces.all()

    @property
    def blocked(self) -> Mapping[str, str]:
        """Name -> the maintenance annotation of the nodes that have one; replaced, never changed."""
        return self._blocked.all()

    @property
    def reached(self) -> Mapping[str, str]:
        """Kind -> the newest resourceVersion that was reported of it."""
        return self._guard.reached

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

    def confined(self, request: GpuRequest, booking: Booking | None, now: datetime) -> GpuRequest:
        """The request of a pod, with the devices of which its booking lets it have shares."""
        if request.share is None or booking is None:
            return request
        with self._lock:
            cover, ledger = self.cover(now), self._ledger
            there = {found.node for uid in cover if (found := ledger.holding(uid))}
            there.update(hold.node for hold in ledger.holds.values())
            places = SharePlaces(
                views={node: ledger.view(node) for node in there},
                cover=cover,
                holds=ledger.holds,
                pods=self._pods.all(),
                namespaces=self.namespaces,
                home=self.home,
            )
            return places.confined(request, booking)

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
                pods=self._pods.all(),
                cover=cover,
                namespaces=self.namespaces,
                home=self.home,
                quiet=node_snapshots.quiet(UNRESPONSIVE_AFTER),
                gone=node_snapshots.quiet(GONE_AFTER),
            )

    def cluster_objects(self) -> ClusterObjects:
        """The cluster as a pod to be placed would find it; without ``keep_scheduling_objects`` only nodes."""
        with self._lock:
            nodes = dict(self.nodes)
            kept = self._scheduling_objects
            return kept.cluster_objects(nodes, self.namespaces) if kept else ClusterObjects(nodes=nodes)

    # --- what follows from a change; the lock is held ------------------------------------------------
    def _list_pod(self, uid: str, before: Pod | None, pod: Pod | None) -> None:
        if before:
            self._cover.unlist_pod(before)
        if kept := self.pods.get(uid):
            self._cover.list_pod(kept)
        self._node_changes.note_pod(uid)
        if pod is None and self._claims:
            self._claims.forget(uid)

    def _count_node(self, name: str, _before: Node | None, node: Node | None) -> None:
        counted = bool(node and node.metadata.annotation(names.COUNTED))
        self.liveness.count_kubelet(name, counts=counted)
        if node:
            self._ledger.apply_node(node)
        else:
            self._ledger.forget_node(name)
        if self._claims:
            self._claims.note_devices(name, self._ledger.view(name).devices)
