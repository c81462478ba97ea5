"""One instant of the cluster, shared by every decision of a pass: taken from the cache under its lock."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Final

from booking.controller.reclaimer.need import Need, need_of
from booking.eviction.over_users import over_users
from booking.eviction.settings import EvictionSettings
from booking.eviction.snapshot import VictimPolicy
from booking.eviction.victims import LEAST_LOST_WORK
from booking.fair_shares.pools import turns_in
from cluster import names
from cluster.cache import CLAIM_KINDS, EVERYWHERE, BookedNodes, BookingPlans, ClusterCache, NodeSnapshots
from cluster.cache.recent_changes import RecentChanges
from cluster.decide.ledger.holdings import PodHoldings
from cluster.decide.scheduler_filters import ClusterObjects
from cluster.decide.share_places import SharePlaces
from cluster.kube.resources import JOBS, PODS, TAINT_RULES
from cluster.objects.bookings import Booking
from cluster.objects.claims import TaintRule
from cluster.objects.device_usage import OverUser
from cluster.objects.gangs import Gang, gang_of
from cluster.objects.hold import Hold, encode_versions
from cluster.objects.hold_verdicts import verdicts_of
from cluster.objects.jobs import Job
from cluster.objects.namespaces import Namespace
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod, is_live
from cluster.process.clock import Clock

DEFAULTS: Final = EvictionSettings()
_OF_CLAIMS: Final = frozenset(one.plural for one in CLAIM_KINDS)
MIRROR_STALE_AFTER: Final = 60.0
"""Seconds without a renewal of the mirror's Lease after which nothing is ended (law L6)."""


@dataclass(frozen=True, kw_only=True)
class ReclaimerSnapshot:
    """Immutable values: a decision based on it needs no lock, no clock and no API server."""

    now: datetime
    pods: Mapping[str, Pod]
    """Uid -> living pod that requests GPUs, terminating ones too."""
    nodes: Mapping[str, Node]
    node_snapshots: NodeSnapshots
    """Node -> its devices and how its agent is doing."""
    recent: RecentChanges | None = None
    """Which nodes have changed of late; None if that is not known."""
    bookings: Mapping[str, Booking]
    cover: Mapping[str, Booking]
    """Pod uid -> the booking that covers it now."""
    barred: frozenset[tuple[str, str]] = frozenset()
    """(uid, booking) of running pods on nodes where their booking does not cover them."""
    places: BookedNodes = EVERYWHERE
    """Where booked pods may be placed, with regard to other bookings."""
    holds: Mapping[str, Hold]
    """Pod uid -> its hold, for pods that are neither bound nor terminating."""
    annotated: Mapping[str, Pod] = field(default_factory=dict)
    """Pods with an annotation of the reclaimer: a hold, a notice, a bar, cover."""
    queued: Mapping[str, Pod] = field(default_factory=dict)
    """Uid -> pod behind our gate, with such an annotation or without."""
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    """Name -> Namespace."""
    jobs: Mapping[str, Job] = field(default_factory=dict)
    """``namespace/name`` -> Job."""
    cluster_objects: ClusterObjects = field(default_factory=ClusterObjects)
    """Resources and constraints of the nodes besides GPUs, for placing a pod."""
    reached: Mapping[str, str] = field(default_factory=dict)
    """Kind -> the newest resourceVersion that was known of it."""
    terms: EvictionSettings = DEFAULTS
    """The administrator's settings."""
    policy: VictimPolicy = LEAST_LOST_WORK
    """Who may be evicted, and at what cost."""
    mirror_age: float | None = None
    """Seconds since the mirror confirmed the Booking objects; None when it never has."""
    since_watch_stale: float | None = None
    """Seconds since events of Leases arrive again after an outage, 0 during one, None if there was none."""
    scheduler_age: float | None = None
    """Seconds since our kube-scheduler renewed its Lease, None if the cache has no such Lease."""
    extender_age: float | None = None
    """Seconds since the extender that leads renewed its Lease, without end if it has released it; None if
    there is no such Lease."""
    uses: Mapping[str, str] = field(default_factory=dict)
    """Node -> how its GPUs are used, as its agent reports it."""
    over_used: Mapping[str, str] = field(default_factory=dict)
    """Node -> its agent's report of pods that use more than their shares; empty where none is evicted."""
    gives_turns: bool = False
    """Whether pods without a booking get free devices in their turn, by a hold."""
    taint_rules: Mapping[str, TaintRule] = field(default_factory=dict)
    """Name -> DeviceTaintRule; empty where claims cannot be booked."""
    conflicts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Node -> UUIDs of devices of which more is held than there is; empty where claims cannot be booked."""
    hold_verdicts: Mapping[str, str] = field(default_factory=dict)
    """Uid of a pod with a hold -> the code that the extender gave it (``hold_verdicts``)."""

    def holding(self, pod: Pod) -> PodHoldings | None:
        """What a bound pod holds, drift included; None for a pod that holds nothing."""
        snapshot = self.node_snapshots.get(pod.spec.node_name or "")
        return (
            next((c for c in snapshot[0].holdings if c.uid == pod.metadata.uid), None) if snapshot else None
        )

    def state_for(self, pod: Pod) -> str | None:
        """What a plan for this pod rests on (``hold.encode_versions``): for one with claims those, too."""
        without = frozenset() if pod.spec.resource_claims or pod.claims else _OF_CLAIMS
        return encode_versions({k: v for k, v in self.reached.items() if k not in without}) or None

    @cached_property
    def needs(self) -> Mapping[str, Need]:
        """Pod uid -> what it needs devices for; pods that may not have any kept are left out."""
        found = {uid: need_of(booking) for uid, booking in self.cover.items()}
        for uid in self.turns.keys() - found.keys():
            if need := self._need_of_turn(self.turns[uid]):
                found[uid] = need
        return found

    @cached_property
    def share_places(self) -> SharePlaces:
        """Which GPUs the shares of booked pods may be on."""
        return SharePlaces(
            views=self.node_snapshots.views,
            cover=self.cover,
            holds=self.holds,
            pods=self.pods,
            namespaces=self.namespaces,
            home=self.terms.namespace,
        ).of_pods_alone()

    @cached_property
    def turns(self) -> Mapping[str, Hold]:
        """Pod uid -> its hold, of those that no booking has given it."""
        if not self.gives_turns:
            return {}
        return turns_in(self)

    def _need_of_turn(self, hold: Hold) -> Need | None:
        """The need of a pod whose turn it is, by its devices; None where the node does not know them."""
        known = self.node_snapshots.views.get(hold.node)
        for resource, models in known.all_by_model.items() if known and hold.devices else ():
            for model, devices in models.items():
                if any(device.uuid == hold.devices[0] for device in devices):
                    return Need(model=model, resource=resource)
        return None

    @cached_property
    def gangs(self) -> Mapping[Gang, list[Pod]]:
        """The living pods of each gang."""
        found: dict[Gang, list[Pod]] = {}
        for pod in self.pods.values():
            gang = gang_of(pod)
            if gang is not None and is_live(pod):
                found.setdefault(gang, []).append(pod)
        return found

    @cached_property
    def victims(self) -> frozenset[str]:
        """Uids of the pods that must leave for a hold."""
        return frozenset(uid for hold in self.holds.values() for uid in hold.victims)

    @cached_property
    def over_users(self) -> Mapping[str, OverUser]:
        """Uid of a pod that uses more of a GPU than its share, and that may be evicted for it -> how much."""
        return over_users(self.over_used, self) if self.over_used else {}

    @property
    def knows_bookings(self) -> bool:
        """Whether the Booking objects are known to be up to date."""
        return self.mirror_age is not None and self.mirror_age < MIRROR_STALE_AFTER

    @cached_property
    def on_hold(self) -> Mapping[str, frozenset[str]]:
        """Node -> devices that are on hold for a pod."""
        found: dict[str, set[str]] = {}
        for hold in self.holds.values():
            found.setdefault(hold.node, set()).update(hold.devices)
        return {node: frozenset(devices) for node, devices in found.items()}

    @cached_property
    def holds_on(self) -> Mapping[str, list[tuple[str, Hold]]]:
        """Node -> the holds there: uid of the waiting pod, and its hold."""
        found: dict[str, list[tuple[str, Hold]]] = {}
        for uid, hold in sorted(self.holds.items()):
            found.setdefault(hold.node, []).append((uid, hold))
        return found

    def with_holds(self, more: Mapping[str, Hold]) -> "ReclaimerSnapshot":
        """This snapshot with holds that the cache does not show yet."""
        return replace(self, holds={**self.holds, **more})

    def without_holds(self, uids: frozenset[str]) -> "ReclaimerSnapshot":
        """This snapshot without holds that were dropped though the cache still shows them."""
        return replace(self, holds={uid: hold for uid, hold in self.holds.items() if uid not in uids})


def take(
    cache: ClusterCache,
    clock: Clock,
    terms: EvictionSettings = DEFAULTS,
    booking_plans: BookingPlans | None = None,
    *,
    policy: VictimPolicy = LEAST_LOST_WORK,
    gives_turns: bool = False,
) -> ReclaimerSnapshot:
    """The cluster at this instant; parts that have not changed since the last snapshot are reused."""
    now = clock.now()
    with cache.locked() as ledger:
        pods, node_snapshots = cache.of(PODS).all(), cache.node_snapshots()
        cluster_objects = cache.cluster_objects()
        return ReclaimerSnapshot(
            now=now,
            pods=pods,
            annotated=dict(cache.annotated),
            queued=dict(cache.queued),
            nodes=cluster_objects.nodes,
            node_snapshots=node_snapshots,
            recent=cache.recent_changes(node_snapshots.views, pods),
            bookings=cache.bookings,
            cover=cache.cover(now),
            barred=cache.barred(now),
            places=booking_plans.places(now) if booking_plans else EVERYWHERE,
            holds={uid: hold for uid, hold in ledger.holds.items() if uid in pods},
            namespaces=cache.namespaces,
            jobs=cache.of(JOBS).all(),
            taint_rules=cache.of(TAINT_RULES).all(),
            conflicts=ledger.conflicts if cache.follows_claims else {},
            cluster_objects=cluster_objects,
            reached=dict(cache.reached),
            terms=terms,
            policy=policy,
            uses=dict(cache.uses),
            over_used=dict(cache.over_used) if terms.evicts_over_users else {},
            gives_turns=gives_turns,
            mirror_age=cache.renewals.age(names.MIRROR_LEASE, monotonic=clock.monotonic()),
            since_watch_stale=cache.renewals.since_watch_stale(monotonic=clock.monotonic()),
            scheduler_age=cache.renewals.age(names.SCHEDULER_LEASE, monotonic=clock.monotonic()),
            extender_age=_extender_age(cache, clock),
            hold_verdicts=verdicts_of(cache.renewals.lease(names.VERDICT_LEASE)),
        )


def _extender_age(cache: ClusterCache, clock: Clock) -> float | None:
    lease = cache.renewals.lease(names.VERDICT_LEASE)
    if lease and lease.metadata.annotation(names.STOPPING):
        return float("inf")
    return cache.renewals.age(names.VERDICT_LEASE, monotonic=clock.monotonic())
