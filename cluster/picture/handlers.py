"""What reflectors tell, written into the picture."""

from collections.abc import Sequence

from cluster.objects.bookings import Booking
from cluster.objects.namespaces import Namespace
from cluster.objects.nodes import Lease, Node
from cluster.objects.pods import Pod
from cluster.picture.picture import Picture


class Pods:
    """What happens to pods."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def replace(self, items: Sequence[Pod], version: str, /) -> None:
        """All living pods."""
        self._picture.replace_pods(items, version)

    def upsert(self, pod: Pod, /) -> None:
        """A pod is new or has changed."""
        self._picture.apply_pod(pod)

    def remove(self, pod: Pod, /) -> None:
        """A pod is gone or has ended."""
        self._picture.remove_pod(pod)


class Nodes:
    """What happens to nodes."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def replace(self, items: Sequence[Node], version: str, /) -> None:
        """All nodes."""
        self._picture.replace_nodes(items, version)

    def upsert(self, node: Node, /) -> None:
        """A node is new or has changed."""
        self._picture.apply_node(node)

    def remove(self, node: Node, /) -> None:
        """A node is gone."""
        self._picture.remove_node(node)


class Bookings:
    """What happens to Booking objects."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def replace(self, items: Sequence[Booking], version: str, /) -> None:
        """All Bookings."""
        self._picture.replace_bookings(items, version)

    def upsert(self, booking: Booking, /) -> None:
        """A Booking is new or has changed."""
        self._picture.apply_booking(booking)

    def remove(self, booking: Booking, /) -> None:
        """A Booking is gone."""
        self._picture.remove_booking(booking)


class Leases:
    """What happens to the Leases of the product's namespace."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def replace(self, items: Sequence[Lease], version: str, /) -> None:
        """All Leases of the product's namespace."""
        self._picture.replace_leases(items, version)

    def upsert(self, lease: Lease, /) -> None:
        """A Lease was made or renewed."""
        self._picture.apply_lease(lease)

    def remove(self, lease: Lease, /) -> None:
        """A Lease is gone."""
        self._picture.remove_lease(lease)


class Namespaces:
    """What happens to Namespaces."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def replace(self, items: Sequence[Namespace], version: str, /) -> None:
        """All Namespaces."""
        self._picture.replace_namespaces(items, version)

    def upsert(self, namespace: Namespace, /) -> None:
        """A Namespace is new or has changed."""
        self._picture.apply_namespace(namespace)

    def remove(self, namespace: Namespace, /) -> None:
        """A Namespace is gone."""
        self._picture.remove_namespace(namespace)
