"""The cluster's capacity, computed from the booking server's cluster cache: the basis of its guarantees."""

import threading
from collections.abc import Callable, Mapping

from booking.eviction.settings import EvictionSettings
from booking.policy.policy import Policy
from booking.server.availability.cluster_capacity import supply
from booking.server.availability.expected_nodes import with_expected
from booking.server.availability.node_keeping import NodeMarks
from booking.server.capacity.capacity import Capacity
from cluster import names
from cluster.cache import ClusterCache
from cluster.decide.booking_plan.supply import SupplySnapshot
from cluster.objects.bookings import Booking
from cluster.process.clock import Clock


class NodeCapacity:
    """The devices that can be booked now. Thread-safe; recomputed only when something has changed."""

    def __init__(
        self,
        cache: ClusterCache,
        clock: Clock,
        terms: EvictionSettings,
        *,
        unready_reason: Callable[[], str | None],
        policy: Callable[[], Policy] = Policy,
    ) -> None:
        """Create it before the cache is filled.

        Args:
            cache: has nodes and pods.
            clock: the time.
            terms: which pods may be evicted.
            unready_reason: why the cache is not trusted.
            policy: which nodes an autoscaler adds when they are needed.
        """
        self._policy = policy
        self._cache, self._clock, self._terms = cache, clock, terms
        self.unready_reason = unready_reason
        """Why the capacity is not known now, None when it is."""
        self._lock = threading.Lock()
        self._changes = 0
        self._known: tuple[object, ...] = ()
        self._capacity = Capacity()
        cache.on_change(self._changed)

    def capacity(self) -> Capacity:
        """The devices that can be booked now; none while ``unready_reason`` returns a reason."""
        with self._lock:
            changes, instant = self._changes, self._instant()
            minute = instant.now.replace(second=0, microsecond=0)
            # Terminating pods start to hang and grants end without any event: checking once a minute is
            # enough.
            profiles = self._policy().nodes
            known = (changes, instant.quiet, instant.gone, minute, _covered(instant.cover), profiles)
            if known != self._known:
                capacity = supply(instant, self._terms)
                self._capacity = with_expected(capacity, profiles, self._labels()) if profiles else capacity
                self._known = known
            return self._capacity

    def resources(self) -> Mapping[str, str]:
        """Model -> the resource under which pods request it, of the models that nodes have now."""
        return self.capacity().resources

    def blocked(self) -> Mapping[str, str]:
        """Node -> the text of its maintenance annotation, for every node."""
        with self._cache.locked():
            return {name: self._cache.blocked.get(name, "") for name in self._cache.nodes}

    def autoscaler_marks(self) -> Mapping[str, NodeMarks]:
        """Node -> what it says to autoscalers, for every node."""
        with self._cache.locked():
            metas = {name: node.metadata for name, node in self._cache.nodes.items()}
        return {
            name: NodeMarks(
                value=meta.annotation(names.SCALE_DOWN_DISABLED),
                is_ours=meta.annotation(names.NODE_KEPT) is not None,
                version=meta.resource_version,
            )
            for name, meta in metas.items()
        }

    def covered_nodes(self) -> frozenset[str]:
        """The nodes on which pods of bookings run."""
        with self._cache.locked():
            pods = [self._cache.pods.get(uid) for uid in self._cache.cover(self._clock.now())]
            return frozenset(pod.spec.node_name for pod in pods if pod and pod.spec.node_name)

    def attached(self) -> Mapping[str, tuple[str, ...]] | None:
        """Booking id -> ``namespace/name`` of the pods that it covers now; None while that is not known."""
        if self.unready_reason() is not None:
            return None
        found: dict[str, list[str]] = {}
        with self._cache.locked():
            for uid, booking in self._cache.cover(self._clock.now()).items():
                if pod := self._cache.pods.get(uid):
                    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
                    found.setdefault(booking.metadata.name, []).append(name)
        return {booking: tuple(sorted(pods)) for booking, pods in found.items()}

    def _instant(self) -> SupplySnapshot:
        now = self._clock.now()
        with self._cache.locked():
            return self._cache.supply_snapshot(now, self._cache.cover(now))

    def _labels(self) -> Mapping[str, Mapping[str, str]]:
        with self._cache.locked():
            return {name: node.metadata.labels or {} for name, node in self._cache.nodes.items()}

    def _changed(self) -> None:
        self._changes += 1


def _covered(cover: Mapping[str, Booking]) -> frozenset[tuple[str, str]]:
    """(Pod, booking) pairs of the covered pods; they change with time, too."""
    return frozenset((uid, booking.name) for uid, booking in cover.items())
