"""Keeps a cache current with one reflector per kind, and knows whether all of them can be trusted.

While one of them is not synced, or has had no event for 150 s, nothing may be decided (law L6).
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from cluster import names
from cluster.cache.cache import ClusterCache
from cluster.kube.interface import Kube
from cluster.kube.reflector import Reflector
from cluster.kube.resources import (
    BOOKINGS,
    LEASES,
    NODES,
    PODS,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    Resource,
)
from cluster.process.clock import Clock
from cluster.process.stop_events import nothing

STALE_AFTER: Final = 150.0
"""Seconds without an event or bookmark after which the cache is not trusted (law L6)."""

UNSUCCESSFUL: Final = "status.phase!=Succeeded"
"""Field selector for parts that must see failed pods, in the order in which they failed."""
LIVING: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector that a pod leaves when it ends: the watch then shows it as deleted."""


ALWAYS: Final[tuple[Resource[Any], ...]] = (PODS, NODES, LEASES, BOOKINGS)
"""What every part with a cache follows."""
SCHEDULING: Final[tuple[Resource[Any], ...]] = (VOLUME_CLAIMS, VOLUMES, STORAGE_CLASSES)
"""What placement depends on beside pods and nodes (``ClusterCache.keep_scheduling_objects``)."""


class Informers:
    """The reflectors of one cache."""

    def __init__(
        self,
        kube: Kube,
        cache: ClusterCache,
        clock: Clock,
        *,
        namespace: str,
        kinds: Iterable[Resource[Any]] = (),
        pods: str = LIVING,
        kubelets: bool = False,
        give_way: Callable[[], None] = nothing,
        once_synced: Callable[[], None] = nothing,
    ) -> None:
        """Create the reflectors; nothing is read yet.

        Args:
            kube: the API server.
            cache: is kept current.
            clock: for staleness.
            namespace: where the Leases are.
            kinds: what is followed besides ``ALWAYS``.
            pods: the selection of pods that is followed.
            kubelets: whether the Leases of kubelets are followed, since no agent runs on some nodes.
            give_way: called before each event of a pod, since those are by far the most frequent.
            once_synced: called once, from a reflector's thread, when all kinds have been read.
        """
        self._kube, self._cache, self._clock = kube, cache, clock
        self._once_synced = once_synced
        self._was_synced = threading.Lock()
        self._namespace, self._pods, self._give_way = namespace, pods, give_way
        self._reflectors: dict[str, Reflector[Any]] = {}
        for resource in (*ALWAYS, *kinds):
            self.add(resource.plural, self._reflector(resource))
        if kubelets:
            of_kubelets = Reflector(kube, LEASES, cache.kubelet_leases, clock, namespace=names.KUBELET_LEASES)
            self.add("leases of kubelets", of_kubelets)

    def _reflector(self, resource: Resource[Any]) -> Reflector[Any]:
        is_pod = resource is PODS
        return Reflector(
            self._kube,
            resource,
            self._cache.of(resource),
            self._clock,
            namespace=self._namespace if resource is LEASES else None,
            field_selector=self._pods if is_pod else None,
            give_way=self._give_way if is_pod else nothing,
        )

    def add(self, kind: str, reflector: Reflector[Any]) -> None:
        """Add another kind that must be trusted as well; before the threads are started."""
        reflector.on_list = self._listed
        self._reflectors[kind] = reflector

    def _listed(self) -> None:
        is_synced = all(reflector.is_synced for reflector in self._reflectors.values())
        if is_synced and self._was_synced.acquire(blocking=False):
            self._once_synced()

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """All of them, for callers that give them no threads."""
        return tuple(self._reflectors.values())

    @property
    def threads(self) -> Mapping[str, Callable[[threading.Event], None]]:
        """Name -> body of a thread that runs until the event is set: one per kind."""
        return {kind: reflector.run for kind, reflector in self._reflectors.items()}

    def lists(self) -> Mapping[str, int]:
        """Kind -> how often it was listed."""
        return {kind: reflector.lists for kind, reflector in self._reflectors.items()}

    def staleness(self) -> float | None:
        """Seconds since the last event of the stalest reflector; None until each has listed."""
        found = [reflector.staleness() for reflector in self._reflectors.values()]
        known = [seconds for seconds in found if seconds is not None]
        return max(known) if len(known) == len(found) else None

    def unready_reason(self) -> str | None:
        """Why nothing may be decided now; None when it may."""
        for kind, reflector in self._reflectors.items():
            staleness = reflector.staleness()
            if not reflector.is_synced or staleness is None:
                return f"The {kind} of the cluster have not been read yet."
            if staleness > STALE_AFTER:
                return (
                    f"There have been no events of {kind} from the API server for {STALE_AFTER:.0f} seconds."
                )
        return None


def read_bookings(kube: Kube, cache: ClusterCache) -> None:
    """Read all Bookings, and put those into the cache that are new or differ from the cached ones.

    Called before a pod loses something because of a Booking that our watch may not have reported yet. A list
    shows every write that was answered before the list was requested; a watch may lag or be interrupted.

    Raises:
        ApiError: they cannot be read.
    """
    known = cache.bookings
    for booking in kube.list(BOOKINGS).items:
        mine = known.get(booking.name)
        if mine is None or mine.metadata.resource_version != booking.metadata.resource_version:
            cache.of(BOOKINGS).upsert(booking)
