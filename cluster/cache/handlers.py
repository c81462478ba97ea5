"""Handlers of reflectors that write changes into the cache."""

from collections.abc import Sequence

from cluster.cache.cache import ClusterCache
from cluster.objects.bookings import Booking
from cluster.objects.namespaces import Namespace
from cluster.objects.nodes import Lease, Node
from cluster.objects.pods import Pod


class Pods:
    """Passes changes of pods on to the cache."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache

    def replace(self, items: Sequence[Pod], version: str, /) -> None:
        """A list: all living pods at a resourceVersion."""
        self._cache.replace_pods(items, version)

    def upsert(self, pod: Pod, /) -> None:
        """A pod is new or has changed."""
        self._cache.apply_pod(pod)

    def remove(self, pod: Pod, /) -> None:
        """A pod is gone or has ended."""
        self._cache.remove_pod(pod)


class Nodes:
    """Passes changes of nodes on to the cache."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache

    def replace(self, items: Sequence[Node], version: str, /) -> None:
        """A list: all nodes at a resourceVersion."""
        self._cache.replace_nodes(items, version)

    def upsert(self, node: Node, /) -> None:
        """A node is new or has changed."""
        self._cache.apply_node(node)

    def remove(self, node: Node, /) -> None:
        """A node is gone."""
        self._cache.remove_node(node)


class Bookings:
    """Passes changes of Booking objects on to the cache."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache

    def replace(self, items: Sequence[Booking], version: str, /) -> None:
        """A list: all Bookings at a resourceVersion."""
        self._cache.replace_bookings(items, version)

    def upsert(self, booking: Booking, /) -> None:
        """A Booking is new or has changed."""
        self._cache.apply_booking(booking)

    def remove(self, booking: Booking, /) -> None:
        """A Booking is gone."""
        self._cache.remove_booking(booking)


class Leases:
    """Passes changes of the Leases in the product's namespace on to the cache."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache

    def replace(self, items: Sequence[Lease], version: str, /) -> None:
        """All Leases of the product's namespace."""
        self._cache.replace_leases(items, version)

    def upsert(self, lease: Lease, /) -> None:
        """A Lease was created or renewed."""
        self._cache.apply_lease(lease)

    def remove(self, lease: Lease, /) -> None:
        """A Lease is gone."""
        self._cache.remove_lease(lease)


class Namespaces:
    """Passes changes of Namespaces on to the cache."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache

    def replace(self, items: Sequence[Namespace], version: str, /) -> None:
        """A list: all Namespaces at a resourceVersion."""
        self._cache.replace_namespaces(items, version)

    def upsert(self, namespace: Namespace, /) -> None:
        """A Namespace is new or has changed."""
        self._cache.apply_namespace(namespace)

    def remove(self, namespace: Namespace, /) -> None:
        """A Namespace is gone."""
        self._cache.remove_namespace(namespace)
