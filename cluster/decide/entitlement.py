"""Which pods are booked: the one function that extender, admission and reclaimer call.

Computed each time from stored pods and Booking objects, never read back from the annotations that people see.
The annotation of a booking on a pod only orders the pods of one user, so that a pod that has cover keeps it.
It never entitles a pod, and cannot give access to another user's booking.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime

from cluster import names
from cluster.decide.booking_use import BookingUse, Example, Parts, Wanted, no_example
from cluster.decide.ledger import NodeView
from cluster.decide.request import gpu_request_of
from cluster.objects.assignment import Assignment, devices_of
from cluster.objects.bookings import Booking
from cluster.objects.claims import PodClaims
from cluster.objects.inventory import spellings_of
from cluster.objects.pods import Pod, first_created, is_live
from cluster.objects.quantity import QuantityError


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A live pod that asks for devices of one resource, as far as cover is concerned."""

    uid: str
    user: str
    namespace: str
    name: str
    """Orders pods that were created in the same second: Kubernetes does not record which came first."""
    first_created: datetime
    """When the first pod of its line of comebacks was created."""
    annotated_booking: str | None
    """Name of the booking in the pod's annotation."""
    wants: Wanted
    """How much it needs."""
    accepts: frozenset[str]
    """Models that it accepts; empty for any."""
    refuses: frozenset[str] = frozenset()
    """Models that it does not accept."""
    has: frozenset[str]
    """Models of the devices that it holds; empty before it is bound."""
    resource: str = names.GPU_RESOURCE
    """The resource that it requests; for shares that of whole GPUs."""
    claims: PodClaims | None = None
    """What it asks for by claims."""

    @property
    def gpus(self) -> int:
        """Number of devices; of a pod with shares the number of its slots."""
        return self.wants.gpus

    def wants_of(self, model: str) -> Wanted:
        """How much it needs of this model."""
        if self.claims is None:
            return self.wants
        of_model = self.claims.of_model(model)
        return replace(self.wants, gpus=of_model.count, by_claim=of_model.by_claim)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCoverage:
    """A user's bookings and pods at one instant, and which booking covers which pod."""

    bookings: tuple[Booking, ...] = ()
    """All known bookings of the user: running, over and still to come."""
    pods: Mapping[str, Pod] = field(default_factory=dict)
    """Uid -> pod."""
    covered: Mapping[str, Booking] = field(default_factory=dict)
    """Uid -> the booking that covers the pod."""
    barred: AbstractSet[tuple[str, str]] = frozenset()
    """(uid, booking) of running pods that a booking does not cover on their present node."""
    example: Example = no_example
    """Devices of the models, by which the size of shares that wait is known."""


def candidate_on(pod: Pod, view: NodeView | None) -> Candidate | None:
    """The pod as a candidate, with what it holds on its node by drift, too; None if it cannot be covered."""
    held = next((each for each in view.holdings if each.uid == pod.metadata.uid), None) if view else None
    if view is None or held is None:
        return candidate(pod, held=None, models={})
    known = {device.uuid: device for device in view.devices} if held.has_shares else {}
    parts = tuple((known[uuid], part) for uuid, part in held.devices.items() if uuid in known)
    return candidate(pod, held={"": tuple(held.devices)}, models=view.models, parts=parts)


def candidate(
    pod: Pod, *, held: Assignment | None, models: Mapping[str, str], parts: Parts = ()
) -> Candidate | None:
    """The pod as a candidate for cover; None for one that cannot be covered.

    Args:
        pod: any pod.
        held: the devices that it holds, including drift; None before it is bound.
        models: UUID -> model of the devices of its node.
        parts: what it holds, if it has shares.
    """
    user = pod.metadata.annotation(names.USER)
    if not user or not is_live(pod) or (pod.claims and pod.claims.resources):
        return None
    try:
        request = gpu_request_of(pod)
    except QuantityError:
        return None
    if len(request.demand) != 1:
        return None
    ((resource, count),) = request.demand.items()
    shares = request if request.share else None
    return Candidate(
        uid=pod.metadata.uid,
        user=user,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        first_created=first_created(pod),
        annotated_booking=pod.metadata.annotation(names.BOOKING),
        resource=request.resource if shares else resource,
        wants=Wanted(count, shares, parts),
        accepts=_accepted(pod, request.models),
        refuses=request.selector.not_models,
        has=frozenset(models.get(uuid, "") for uuid in devices_of(held or {})),
        claims=pod.claims,
    )


def _accepted(pod: Pod, models: frozenset[str]) -> frozenset[str]:
    """The models that it accepts: where its claims can be judged, those of the devices that they accept."""
    if pod.claims is None or pod.claims.problem or not pod.claims.models:
        return models
    return pod.claims.models


def entitlement(
    bookings: Iterable[Booking],
    candidates: Iterable[Candidate],
    now: datetime,
    *,
    barred: AbstractSet[tuple[str, str]] = frozenset(),
    example: Example = no_example,
) -> dict[str, Booking]:
    """Pod uid -> the running booking that covers it.

    Per booking, the user's pods are tried in the order (annotated with it, first creation, name, uid). A pod
    is covered if its GPUs still fit into the booking's count and are of its model; others are skipped. Of
    shares, see ``booking_use``.

    Args:
        bookings: all bookings that may cover a pod.
        candidates: the pods.
        now: the instant.
        barred: (pod uid, booking) of pods that a booking does not cover on their present node (``adoption``).
        example: devices of the models, by which the size of shares that wait is known.
    """
    running = sorted((b for b in bookings if b.is_running(now)), key=lambda b: (b.spec.start, b.name))
    pods: dict[str, list[Candidate]] = {}
    for pod in candidates:
        pods.setdefault(pod.user, []).append(pod)
    covered: dict[str, Booking] = {}
    for booking in running:
        use = BookingUse(booking.spec, example)
        for pod in sorted(pods.get(booking.spec.user, ()), key=lambda p: _place(p, booking)):
            if (pod.uid, booking.name) in barred:
                continue
            if pod.uid not in covered and _suits(pod, booking) and use.add(pod.wants_of(booking.spec.model)):
                covered[pod.uid] = booking
    return covered


def _place(pod: Candidate, booking: Booking) -> tuple[bool, datetime, str, str]:
    return (pod.annotated_booking != booking.name, pod.first_created, pod.name, pod.uid)


def _suits(pod: Candidate, booking: Booking) -> bool:
    return is_of_namespace(pod, booking) and is_of_resource(pod, booking) and is_of_model(pod, booking)


def is_of_namespace(pod: Candidate, booking: Booking) -> bool:
    """Whether the booking covers pods of the pod's namespace."""
    return booking.spec.namespace is None or booking.spec.namespace == pod.namespace


def is_of_model(pod: Candidate, booking: Booking) -> bool:
    """Whether the pod's devices, or those that it accepts before it has any, are of the booking's model."""
    if pod.has:
        return pod.has == {booking.spec.model}
    called = spellings_of(booking.spec.model)
    return called.isdisjoint(pod.refuses) and (not pod.accepts or not called.isdisjoint(pod.accepts))


def is_of_resource(pod: Candidate, booking: Booking) -> bool:
    """Whether the pod requests the resource of the booking's model; a pod that has devices got the right one.

    The name under which nodes offer MIG devices may change while pods that have some run on.
    """
    return bool(pod.has) or pod.resource == booking.spec.resource
