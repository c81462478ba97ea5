"""One instant of the cluster for display: taken from the cache under its lock."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from booking.eviction.settings import EvictionSettings
from booking.eviction.snapshot import VictimPolicy
from booking.eviction.victims import LEAST_LOST_WORK
from cluster.cache import EVERYWHERE, BookedNodes, BookingPlans, ClusterCache, NodeSnapshots
from cluster.cache.recent_changes import RecentChanges
from cluster.decide.booking_plan.permanent_pods import PermanentPods
from cluster.decide.explain import ExplanationSnapshot
from cluster.decide.protection import never_evicted_reason
from cluster.kube.resources import JOBS
from cluster.objects.bookings import Booking
from cluster.objects.hold import Hold
from cluster.objects.jobs import Job
from cluster.objects.namespaces import Namespace
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from cluster.process.clock import Clock


@dataclass(frozen=True, kw_only=True)
class StatusSnapshot:
    """Values only. It is also a ``booking.eviction.snapshot.EvictionSnapshot``."""

    now: datetime
    pods: Mapping[str, Pod]
    node_snapshots: NodeSnapshots
    bookings: Mapping[str, Booking]
    cover: Mapping[str, Booking]
    barred: frozenset[tuple[str, str]] = frozenset()
    holds: Mapping[str, Hold] = field(default_factory=dict)
    places: BookedNodes = EVERYWHERE
    """Where booked pods may be placed."""
    permanent_pods: PermanentPods | None = None
    """Where pods that stay indefinitely may be placed."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    jobs: Mapping[str, Job] = field(default_factory=dict)
    """``namespace/name`` -> Job."""
    uses: Mapping[str, str] = field(default_factory=dict)
    """Node -> how its GPUs are used, as its agent reports it."""
    blocked: Mapping[str, str] = field(default_factory=dict)
    """Node -> its maintenance, as the annotation says, of the nodes that have some."""
    terms: EvictionSettings = field(default_factory=EvictionSettings)
    policy: VictimPolicy = LEAST_LOST_WORK
    recent: RecentChanges | None = None
    """Which nodes have changed of late; None if that is not known."""

    @property
    def explanation(self) -> ExplanationSnapshot:
        """The part of the snapshot from which a pod is explained."""
        return ExplanationSnapshot(
            now=self.now,
            pods=self.pods,
            node_snapshots=self.node_snapshots,
            bookings=self.bookings,
            cover=self.cover,
            barred=self.barred,
            holds=self.holds,
            placement_checks=self.places.checks,
            permanent_pods=self.permanent_pods,
            nodes=self.nodes,
            namespaces=self.namespaces,
            home=self.terms.namespace,
        )

    @property
    def outgoing(self) -> frozenset[str]:
        """Uids of the pods that must leave for booked ones."""
        return frozenset(uid for hold in self.holds.values() for uid in hold.victims)


def take(
    cache: ClusterCache,
    clock: Clock,
    terms: EvictionSettings,
    booking_plans: BookingPlans | None = None,
    *,
    policy: VictimPolicy = LEAST_LOST_WORK,
) -> StatusSnapshot:
    """Take a snapshot of the cluster.

    Args:
        cache: of the cluster.
        clock: the time.
        terms: the administrator's settings.
        booking_plans: over the same cache, where it matters what is guaranteed to whom.
        policy: who may be evicted, and at what cost.
    """
    now = clock.now()
    with cache.locked() as ledger:
        pods, node_snapshots = dict(cache.pods), cache.node_snapshots()
        return StatusSnapshot(
            now=now,
            pods=pods,
            node_snapshots=node_snapshots,
            recent=cache.recent_changes(node_snapshots.views, pods),
            bookings=cache.bookings,
            cover=cache.cover(now),
            barred=cache.barred(now),
            holds={uid: hold for uid, hold in ledger.holds.items() if uid in pods},
            places=booking_plans.places(now) if booking_plans else EVERYWHERE,
            nodes=dict(cache.nodes),
            namespaces=cache.namespaces,
            jobs=cache.of(JOBS).all(),
            uses=dict(cache.uses),
            blocked=cache.blocked,
            terms=terms,
            policy=policy,
        )


def about(pod: Pod, snapshot: StatusSnapshot, booking_plans: BookingPlans) -> StatusSnapshot:
    """The snapshot for questions about one pod; it looks at all nodes only where that matters to the pod.

    Args:
        pod: the pod in question.
        snapshot: the present one.
        booking_plans: over the same cache.
    """
    if never_evicted_reason(pod, namespaces=snapshot.namespaces, home=snapshot.terms.namespace) is None:
        return snapshot
    return replace(snapshot, permanent_pods=booking_plans.permanent_pods(snapshot.now))
