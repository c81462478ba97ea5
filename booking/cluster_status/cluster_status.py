"""The current state of the cluster for people, from the server's cluster cache. Thread-safe."""

import re
from collections.abc import Callable
from typing import Final

from booking import wording
from booking.cluster_status.now import Now, now_of
from booking.cluster_status.snapshot import StatusSnapshot, about, take
from booking.cluster_status.viewer import Viewer
from booking.cluster_status.why import Why, why_of
from booking.errors import ClusterError, UnknownPodError
from booking.eviction_settings import EvictionSettings
from booking.policy.visibility import Visibility
from booking.principals import Principal
from cluster.cache import BookingPlans, ClusterCache
from cluster.kube.errors import ApiError, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod
from cluster.process.clock import Clock
from cluster.process.probes import Check

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_POD: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
"""Names that Kubernetes allows; the API server is asked for no other."""


class ClusterStatus:
    """Answers *now* and *why*."""

    def __init__(
        self,
        cache: ClusterCache,
        kube: Kube,
        clock: Clock,
        terms: EvictionSettings,
        *,
        visibility: Callable[[], Visibility],
        unready_reason: Check,
    ) -> None:
        """Create it.

        Args:
            cache: of the cluster.
            kube: reads pods that the cache leaves out: ended ones, and those without GPUs.
            clock: the time.
            terms: the administrator's settings.
            visibility: what people see of others.
            unready_reason: why the cache cannot be trusted now.
        """
        self._cache, self._kube, self._clock, self._terms = cache, kube, clock, terms
        self._booking_plans = BookingPlans(cache)
        self._visibility, self._unready_reason = visibility, unready_reason

    def now(self, who: Principal) -> Now:
        """Nodes, devices, holders, and who would be evicted next.

        Raises:
            ClusterError: the state of the cluster is not known now.
        """
        return now_of(self._snapshot(), self._viewer(who))

    def why(self, who: Principal, namespace: str, name: str) -> Why:
        """Why a pod waits, or holds what it holds.

        Raises:
            UnknownPodError: there is no pod of that name that this user may see.
            ClusterError: the state of the cluster is not known now, or the API server does not answer.
        """
        snapshot = self._snapshot(self._booking_plans)
        pod = self._found(snapshot, namespace, name)
        viewer = self._viewer(who)
        if pod is None or not viewer.may_ask_about(pod):
            raise UnknownPodError(
                f"You have no pod {wording.quoted(name)} in the namespace {wording.quoted(namespace)}."
            )
        return why_of(pod, about(pod, snapshot, self._booking_plans), viewer)

    def mine(self, who: Principal) -> tuple[tuple[str, str], ...]:
        """Namespaces and names, sorted, of the user's own pods that request GPUs."""
        pods = self._snapshot().pods.values()
        own = (pod for pod in pods if Viewer.user_of(pod) == who.user)
        return tuple(sorted((pod.metadata.namespace, pod.metadata.name) for pod in own))

    def _snapshot(self, booking_plans: BookingPlans | None = None) -> StatusSnapshot:
        problem = self._unready_reason()
        if problem:
            raise ClusterError(problem)
        return take(self._cache, self._clock, self._terms, booking_plans)

    def _viewer(self, who: Principal) -> Viewer:
        return Viewer(who, self._visibility())

    def _found(self, snapshot: StatusSnapshot, namespace: str, name: str) -> Pod | None:
        if not _NAMESPACE.fullmatch(namespace) or not _POD.fullmatch(name):
            return None
        known = (pod for pod in snapshot.pods.values() if pod.metadata.name == name)
        found = next((pod for pod in known if pod.metadata.namespace == namespace), None)
        return found or self._queried(namespace, name)

    def _queried(self, namespace: str, name: str) -> Pod | None:
        try:
            return self._kube.get(PODS, name, namespace=namespace)
        except NotFound:
            return None
        except ApiError as error:
            raise ClusterError("The Kubernetes API server does not answer. Ask again soon.") from error
