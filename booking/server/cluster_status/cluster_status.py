"""The current state of the cluster for people, from the server's cluster cache. Thread-safe."""

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import structlog

from booking import wording
from booking.eviction.settings import EvictionSettings
from booking.eviction.snapshot import VictimPolicy
from booking.eviction.victims import LEAST_LOST_WORK
from booking.fair_shares.queue import NOTHING_OWED
from booking.policy.fair_shares import FairShares
from booking.policy.visibility import Visibility
from booking.principals import Principal
from booking.server.cluster_status import quota_messages
from booking.server.cluster_status.holder_classes import Classes
from booking.server.cluster_status.namespace_facts import NamespaceFacts
from booking.server.cluster_status.never_created import last_seen, newest_about, why_never_created
from booking.server.cluster_status.now import Now, now_of
from booking.server.cluster_status.queue import Queue, queue_of, sentences
from booking.server.cluster_status.share_history import ShareHistory, SharesOverTime, shares_over_time
from booking.server.cluster_status.share_record import ShareRecord
from booking.server.cluster_status.snapshot import StatusSnapshot, about, take
from booking.server.cluster_status.standings import ModelNow, models_now, standings_of
from booking.server.cluster_status.viewer import Viewer
from booking.server.cluster_status.why import Why, why_of
from booking.server.errors import ClusterError, StoreError, UnknownPodError
from cluster import names
from cluster.cache import BookingPlans, ClusterCache
from cluster.kube.errors import ApiError, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import PODS
from cluster.objects.demand import demand
from cluster.objects.pods import Pod, container_needs, is_terminal
from cluster.process.clock import Clock
from cluster.process.probes import Check

log = structlog.get_logger(__name__)

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_POD: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
"""Names that Kubernetes allows; the API server is asked for no other."""


def _nobody(_who: Principal, _namespace: str) -> bool:
    return False


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
        may_read_events: Callable[[Principal, str], bool] = _nobody,
        resources: Callable[[], Mapping[str, str]] = dict,
        bookable: Callable[[], Mapping[str, int] | None] = lambda: None,
        victims: VictimPolicy = LEAST_LOST_WORK,
        fair_shares: Callable[[], FairShares] = FairShares,
        history: ShareHistory | None = None,
    ) -> None:
        """Create it.

        Args:
            cache: of the cluster.
            kube: reads pods that the cache leaves out: ended ones, and those without GPUs.
            clock: the time.
            terms: the administrator's settings.
            visibility: what people see of others.
            unready_reason: why the cache cannot be trusted now.
            may_read_events: whether the API server lets a user read the Events of a namespace.
            resources: model -> the resource under which pods request it; GPUs where it is not named.
            bookable: model -> GPUs that the calendar leaves for a booking that begins now.
            victims: who may be evicted, as the controller decides it.
            fair_shares: how GPUs without a booking are divided, as the controller reads it.
            history: of the shares.
        """
        self._cache, self._kube, self._clock, self._terms = cache, kube, clock, terms
        self._booking_plans = BookingPlans(cache)
        self._visibility, self._unready_reason = visibility, unready_reason
        self._may_read_events, self._victims = may_read_events, victims
        self._resources, self._calendar, self._fair_shares = resources, bookable, fair_shares
        self._namespace_facts = NamespaceFacts(kube, clock)
        self._share_record = ShareRecord(kube, clock, terms.namespace)
        self._history = history

    def now(self, who: Principal) -> Now:
        """Nodes, devices, holders, and who would be evicted next.

        Raises:
            ClusterError: the state of the cluster is not known now.
        """
        return now_of(self._snapshot(), self._viewer(who), bookable=self._bookable())

    def models(self) -> tuple[ModelNow, ...]:
        """How many GPUs of each model are bookable, lent, idle though booked and in use.

        Raises:
            ClusterError: the state of the cluster is not known now.
        """
        snapshot = self._snapshot()
        return models_now(snapshot, standings_of(snapshot, Classes(snapshot)), self._bookable())

    def why(self, who: Principal, namespace: str, name: str) -> Why:
        """Why a pod waits, holds what it holds, or does not exist because its controller could not create it.

        The name may also be that of the controller: a Deployment, Job, StatefulSet and the like.

        Raises:
            UnknownPodError: there is no pod of that name that this user may see, and none was refused.
            ClusterError: the state of the cluster is not known now, or the API server does not answer.
        """
        snapshot = self._snapshot(self._booking_plans)
        pod = self._found(snapshot, namespace, name)
        viewer = self._viewer(who)
        if pod is None or not viewer.may_ask_about(pod):
            refused = None if pod is not None else self._never_created(viewer, snapshot, namespace, name)
            if refused is not None:
                return refused
            raise UnknownPodError(
                f"You have no pod {wording.quoted(name)} in the namespace {wording.quoted(namespace)}."
                f"{self._quota_hint(viewer, snapshot, namespace)}"
            )
        missing = (one.resource_claim_name for one in self._cache.unknown_claims(pod))
        found = why_of(
            pod,
            about(pod, snapshot, self._booking_plans),
            viewer,
            missing_claims=tuple(name for name in missing if name),
        )
        shares = self._fair_shares()
        if shares.effective(maia=self._terms.maia) == "off" or pod.metadata.uid not in snapshot.pods:
            return found
        more = sentences(snapshot, pod, shares, viewer, recorded=self._share_record.books())
        return msgspec.structs.replace(found, because=(*found.because, *more))

    def queue(self, who: Principal, model: str | None = None) -> Queue:
        """Who waits for GPUs without a booking, in the order of their turns; of one model or of all.

        Raises:
            ClusterError: the state of the cluster is not known now.
        """
        shares = self._fair_shares()
        mode = shares.effective(maia=self._terms.maia)
        recorded = NOTHING_OWED if mode == "off" else self._share_record.books()
        found = queue_of(self._snapshot(), self._viewer(who), shares, mode=mode, recorded=recorded)
        if model is None:
            return found
        label = names.model_label(model)
        return msgspec.structs.replace(found, models=tuple(one for one in found.models if one.model == label))

    def shares_over_time(self, who: Principal) -> tuple[SharesOverTime, ...]:
        """Who held and deserved how many GPUs of each model within a day; of models that anybody held."""
        samples = self._history.samples() if self._history else {}
        return tuple(shares_over_time(samples, self._clock.now(), self._viewer(who)))

    def mine(self, who: Principal) -> tuple[tuple[str, str], ...]:
        """Namespaces and names, sorted, of the user's own pods that request GPUs."""
        pods = self._snapshot().pods.values()
        own = (pod for pod in pods if Viewer.user_of(pod) == who.user)
        return tuple(sorted((pod.metadata.namespace, pod.metadata.name) for pod in own))

    def quota_warnings(
        self, user: str, namespace: str | None, count: int, model: str, *, is_shared: bool = False
    ) -> tuple[str, ...]:
        """Warnings that a quota may refuse pods of a user's booking of so many GPUs or shares there.

        None for a booking without a namespace: its pods may be anywhere.
        """
        if namespace is None or not _NAMESPACE.fullmatch(namespace):
            return ()
        whole = self._resources().get(model, names.GPU_RESOURCE)
        resource = names.SHARED_RESOURCE if is_shared and whole == names.GPU_RESOURCE else whole
        own = sum(
            demand(container_needs(pod)).get(resource, 0)
            for pod in dict(self._cache.pods).values()
            if pod.metadata.namespace == namespace and Viewer.user_of(pod) == user and not is_terminal(pod)
        )
        quotas = self._namespace_facts.quotas(namespace)
        found = quota_messages.warnings(quotas, namespace=namespace, count=count, own=own, resource=resource)
        return tuple(found)

    def _bookable(self) -> Mapping[str, int] | None:
        try:
            return self._calendar()
        except StoreError as error:
            log.warning("it is not known which GPUs are bookable", error=str(error))
            return None

    def _never_created(
        self, viewer: Viewer, snapshot: StatusSnapshot, namespace: str, name: str
    ) -> Why | None:
        """Why the pods of a controller were refused; None if they were not, or may not be seen."""
        if not self._may_see_inside(viewer, snapshot, namespace) or not _POD.fullmatch(name):
            return None
        try:
            event = newest_about(name, self._namespace_facts.refusals(namespace))
            if event is None:
                return None
            since = self._namespace_facts.creations(namespace, event.involved_object.name)
        except ApiError as error:
            log.warning("the Events of a namespace cannot be read", namespace=namespace, error=str(error))
            return None
        if any(last_seen(each) > last_seen(event) for each in since):
            return None
        return why_never_created(event, namespace=namespace, name=name)

    def _quota_hint(self, viewer: Viewer, snapshot: StatusSnapshot, namespace: str) -> str:
        """That a quota refuses every pod with GPUs: kubectl has told the user alone who created the pod."""
        if not self._may_see_inside(viewer, snapshot, namespace):
            return ""
        message = quota_messages.used_up(self._namespace_facts.quotas(namespace), namespace)
        return f" {message}" if message else ""

    def _may_see_inside(self, viewer: Viewer, snapshot: StatusSnapshot, namespace: str) -> bool:
        """Whether a user may learn which pods of a namespace were refused."""
        if not _NAMESPACE.fullmatch(namespace):
            return False
        known = snapshot.namespaces.get(namespace)
        is_owner = known is not None and known.owner == viewer.who.user
        is_administrator = viewer.who.is_administrator
        return is_owner or is_administrator or self._may_read_events(viewer.who, namespace)

    def _snapshot(self, booking_plans: BookingPlans | None = None) -> StatusSnapshot:
        problem = self._unready_reason()
        if problem:
            raise ClusterError(problem)
        return take(self._cache, self._clock, self._terms, booking_plans, policy=self._victims)

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
