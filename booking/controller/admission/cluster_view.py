"""The webhook's view of the cluster: the cache, queried for what matters to a new pod."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from booking.controller.admission.free_gpus import FreeGpus, Seen, is_spoken_for, room
from booking.controller.admission.owner import PodNamespace
from cluster.cache import ClusterCache
from cluster.decide.entitlement import UserCoverage
from cluster.decide.identity import DEFAULT_RULES, Rule, UsersOf, users_by_label
from cluster.objects.bookings import Booking
from cluster.objects.claims import PodClaims
from cluster.objects.pods import Pod


class CachedClusterView:
    """The webhook's view, read from the cluster cache. Thread-safe."""

    def __init__(
        self, cache: ClusterCache, *, rules: tuple[Rule, ...] = DEFAULT_RULES, known: Iterable[str] = ()
    ) -> None:
        """Args: known: raw names of JupyterHub's users, besides those who have bookings."""
        self._cache = cache
        self._rules = rules
        self._known = tuple(known)
        self._labels: tuple[Mapping[str, Booking], UsersOf] | None = None

    def namespace(self, namespace: str) -> PodNamespace:
        """What administrators have written on a namespace, as it was read last."""
        found = self._cache.namespaces.get(namespace)
        if found is None:
            return PodNamespace(name=namespace)
        return PodNamespace(
            name=namespace,
            owner=found.owner,
            is_protected=found.is_protected,
            default_share=found.default_share,
        )

    def user_coverage(self, pod: Pod, now: datetime) -> UserCoverage:
        """Bookings and pods of the pod's user, and which booking covers which pod."""
        return self._cache.user_coverage(pod, now)

    def users_by_label(self) -> UsersOf:
        """The known users for each JupyterHub label; rebuilt when the bookings have changed."""
        bookings, made = self._cache.bookings, self._labels
        if made is None or made[0] is not bookings:
            users = {booking.spec.user for booking in bookings.values()}
            made = self._labels = (bookings, users_by_label({*self._known, *users}, self._rules))
        return made[1]

    def claims(self, pod: Pod) -> PodClaims | None:
        """What a new pod's claims will ask for, as far as their templates exist."""
        return self._cache.foreseen_claims(pod)

    def is_by_claims(self, pod: Pod) -> bool:
        """Whether kube-scheduler allocates claims for the pod."""
        return self._cache.is_by_claims(pod)

    def models(self) -> frozenset[str]:
        """The models of all devices that agents have published."""
        return frozenset(device.model for _, view, _ in self._seen() for device in view.devices)

    def room(self, pod: Pod) -> FreeGpus:
        """Whether a GPU is free for the pod."""
        return room(pod, self._seen())

    def is_spoken_for(self, pod: Pod) -> bool:
        """Whether pods that already wait for the same GPUs would take all free ones."""
        with self._cache.locked():
            waiting = [other for other in self._cache.pods.values() if not other.spec.node_name]
        return bool(waiting) and is_spoken_for(pod, self._seen(), waiting)

    def _seen(self) -> Iterator[Seen]:
        with self._cache.locked():
            nodes = dict(self._cache.nodes)
            node_snapshots = self._cache.snapshot(nodes)
        return ((node, *snapshot) for node, snapshot in zip(nodes.values(), node_snapshots, strict=True))
