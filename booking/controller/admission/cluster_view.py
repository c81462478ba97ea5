"""The webhook's view of the cluster: the cache, queried for what matters to a new pod.

A pod whose claims are of no known template may have come a moment after it, in one manifest: then the watch
is behind, and what the pod names is read from the API server.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from booking.controller.admission.free_gpus import FreeGpus, Seen, is_spoken_for, room
from booking.controller.admission.owner import PodNamespace
from cluster.cache import ClusterCache
from cluster.decide.entitlement import UserCoverage
from cluster.decide.identity import DEFAULT_RULES, Rule, UsersOf, users_by_label
from cluster.kube.errors import ApiError, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import CLAIM_TEMPLATES, RESOURCE_CLAIMS
from cluster.objects.bookings import Booking
from cluster.objects.claims import PodClaims, ResourceClaim
from cluster.objects.pods import ClaimReference, Pod

MOST_READ: Final = 4
"""Claims of one pod that are read."""
READ_WITHIN: Final = 0.5
"""Seconds in which each must be answered; the API server waits for us meanwhile."""


class CachedClusterView:
    """The webhook's view, read from the cluster cache. Thread-safe."""

    def __init__(
        self,
        cache: ClusterCache,
        *,
        rules: tuple[Rule, ...] = DEFAULT_RULES,
        known: Iterable[str] = (),
        kube: Kube | None = None,
    ) -> None:
        """Create it.

        Args:
            cache: of the cluster.
            rules: whose pod is whose.
            known: raw names of JupyterHub's users, besides those who have bookings.
            kube: the API server, where claims are read of which the watch has not told yet.
        """
        self._cache, self._kube = cache, kube
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
        found = self._cache.foreseen_claims(pod)
        if found is not None or self._kube is None:
            return found
        read = {}
        for one in self._cache.unknown_claims(pod)[:MOST_READ]:
            try:
                read[one.name] = _read(self._kube, one, pod.metadata.namespace)
            except NotFound:
                continue
            except ApiError:
                break
        return self._cache.foreseen_claims(pod, read) if read else None

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


def _read(kube: Kube, reference: ClaimReference, namespace: str) -> ResourceClaim:
    """The claim that a new pod names, or one as its template makes it.

    Raises:
        ApiError: there is none, or it cannot be read.
    """
    if name := reference.resource_claim_template_name:
        template = kube.get(CLAIM_TEMPLATES, name, namespace=namespace, within=READ_WITHIN)
        return ResourceClaim(spec=template.spec.spec)
    name = reference.resource_claim_name or ""
    return kube.get(RESOURCE_CLAIMS, name, namespace=namespace, within=READ_WITHIN)
