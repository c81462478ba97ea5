"""Pods as the API server shows them to webhooks, and a view of the cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from booking.controller.admission.free_gpus import FreeGpus
from booking.controller.admission.owner import Creators, PodNamespace
from booking.controller.admission.review import Outcome, Review, ReviewRequest
from cluster import names
from cluster.decide.entitlement import UserCoverage, candidate, entitlement
from cluster.decide.identity import UsersOf, users_by_label
from cluster.objects.bookings import Booking
from cluster.objects.claims import PodClaims
from cluster.objects.pods import Pod
from demo.simulation.json_patch import applied
from tests.fakes.objects import EPOCH, a_booking

Json = dict[str, Any]

OURSELVES = f"system:serviceaccount:{names.NAMESPACE}:{names.CONTROLLER}"
HUB = "system:serviceaccount:hub:hub"
JOBS = "system:serviceaccount:kube-system:job-controller"
CREATORS = Creators(trusted=frozenset({HUB}), ourselves=OURSELVES)
BOOKING = a_booking("b-1")
"""Alice's: one A100."""
MAY_BE_EVICTED = "this pod may be evicted when a booked pod needs its GPU."


@dataclass
class FakeClusterView:
    """A view of the cluster, made of values."""

    bookings: tuple[Booking, ...] = (BOOKING,)
    pods: tuple[Pod, ...] = ()
    """Of any user."""
    namespaces: Mapping[str, PodNamespace] = field(default_factory=dict)
    gpu_models: frozenset[str] = frozenset()
    has: FreeGpus = "free"
    is_for_others: bool = False
    """Whether pods that wait already would take it."""
    by_claims: PodClaims | None = None
    """What every pod asks for by claims, as far as is known."""
    room_queries: list[Pod] = field(default_factory=list)
    user_coverage_of: list[Pod] = field(default_factory=list)

    def namespace(self, namespace: str) -> PodNamespace:
        return self.namespaces.get(namespace, PodNamespace(name=namespace))

    def user_coverage(self, pod: Pod, now: datetime) -> UserCoverage:
        self.user_coverage_of.append(pod)
        user = pod.metadata.annotation(names.USER)
        pods = [pod, *(p for p in self.pods if p.metadata.annotation(names.USER) == user)]
        bookings = tuple(booking for booking in self.bookings if booking.spec.user == user)
        candidates = [found for p in pods if (found := candidate(p, held=None, models={}))]
        covered = entitlement(bookings, candidates, now)
        return UserCoverage(bookings=bookings, pods={p.metadata.uid: p for p in pods}, covered=covered)

    def users_by_label(self) -> UsersOf:
        return users_by_label({booking.spec.user for booking in self.bookings})

    def claims(self, _pod: Pod) -> PodClaims | None:
        return self.by_claims

    def is_by_claims(self, pod: Pod) -> bool:
        return bool(pod.spec.resource_claims)

    def models(self) -> frozenset[str]:
        return self.gpu_models

    def room(self, pod: Pod) -> FreeGpus:
        self.room_queries.append(pod)
        return self.has

    def is_spoken_for(self, pod: Pod) -> bool:
        return self.is_for_others and pod.metadata.uid not in {known.metadata.uid for known in self.pods}


def a_pod(*, gpus: int = 1, spec: Json | None = None, **metadata: Any) -> Json:
    """A pod as the API server shows it to webhooks: defaults filled in, no uid."""
    amounts = {names.GPU_RESOURCE: str(gpus)} if gpus else {}
    container = {"name": "main", "resources": {"limits": amounts, "requests": amounts}}
    filled_in = {
        "schedulerName": "default-scheduler",
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "p", "namespace": "default", **metadata},
        "spec": {"containers": [container], **filled_in, **(spec or {})},
        "status": {},
    }


def reviewed(
    pod: Json,
    creator: str = "alice",
    view: FakeClusterView | None = None,
    *,
    is_certain: bool = True,
    zero: frozenset[str] = frozenset(),
    is_last: bool = False,
    groups: frozenset[str] = frozenset(),
    **settings: Any,
) -> tuple[Json, Outcome]:
    """The pod as it is stored, and what was decided."""
    request = ReviewRequest(creator=creator, namespace="default", pod=pod, is_last=is_last, groups=groups)
    review = Review(creators=CREATORS, **settings)
    outcome = review(request, view or FakeClusterView(), EPOCH, is_certain=is_certain, zero=zero)
    return applied(pod, outcome.patch), outcome


def annotations(pod: Json) -> Json:
    """The pod's."""
    found: Json = pod["metadata"].get("annotations", {})
    return found
