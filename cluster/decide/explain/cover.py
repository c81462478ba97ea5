"""Messages about a pod's user, and the booking that covers it or the reason why none does."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cluster import names
from cluster.decide.claims.extended import INSTEAD, unbookable
from cluster.decide.coverage import Coverage, coverage
from cluster.decide.entitlement import Candidate, candidate_on
from cluster.decide.explain.snapshot import ExplanationSnapshot, at, counted, listed
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod

_PAST_ADMISSION: Final = "it was created without passing admission"
_NAMED: Final = 3
"""Number of pods that are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Covered:
    """A pod among the bookings of its user."""

    user: str | None
    found: Coverage
    over: Booking | None
    """The user's booking that ended last."""
    resources: tuple[str, ...] = ()
    """The extended resources that DRA satisfies by which it asks: no booking covers it."""

    @property
    def booking(self) -> Booking | None:
        """The booking that covers the pod."""
        return self.found.cover


def covered(pod: Pod, snapshot: ExplanationSnapshot) -> Covered:
    """The cover of a living pod."""
    user = pod.metadata.annotation(names.USER)
    if not user:
        return Covered(None, Coverage(), None)
    user_coverage = snapshot.user_coverage(user)
    found = coverage(pod, user_coverage, snapshot.now, asks=_asks(pod, snapshot))
    over = [
        one
        for one in user_coverage.bookings
        if one.spec.end <= snapshot.now and one.spec.start < one.spec.end
    ]
    last = max(over, key=lambda one: (one.spec.end, one.name), default=None)
    return Covered(user, found, last, pod.claims.resources if pod.claims else ())


def _asks(pod: Pod, snapshot: ExplanationSnapshot) -> Candidate | None:
    """The pod as a candidate with the devices that it holds: a booking covers those, not its request."""
    holding = snapshot.holding(pod)
    return candidate_on(pod, snapshot.node_snapshots[holding.node][0] if holding else None)


def whose(pod: Pod) -> str:
    """The user to whom the pod belongs, or why it has none."""
    user = pod.metadata.annotation(names.USER)
    if user:
        return f"It belongs to {user}."
    reason = pod.metadata.annotation(names.NO_USER)
    return f"It belongs to nobody: {(reason or _PAST_ADMISSION).rstrip('.')}."


def messages(pod: Pod, known: Covered) -> Iterator[str]:
    """Which booking covers the pod, or why none does."""
    found = known.found
    if known.user is None:
        yield "So no booking can cover it."
    elif known.resources:
        yield f"{unbookable(known.resources)}."
    elif found.asks is None and found.kind == "unbookable":
        yield "Bookings cover devices of one kind, and it asks for several."
    elif found.booking is None or found.asks is None:
        yield f"No booking of {known.user}'s is running."
        if known.over:
            yield f"The last one, {known.over.name}, was over at {at(known.over.spec.end)}."
    else:
        yield _of_booking(pod, found, found.booking, found.asks)


def _of_booking(pod: Pod, found: Coverage, booking: Booking, asks: Candidate) -> str:
    spec, what = booking.spec, _wanted(asks)
    ends = {
        "covered": f"covers it until {at(spec.end)}",
        "later": f"does not cover it yet: it begins at {at(spec.start)}",
        "namespace": f"does not cover it: it is for pods of the namespace {spec.namespace} alone",
        "resource": (
            f"does not cover it: it asks for {way_of(asks.resource)},"
            f" and that model is {_given(spec.resource)}"
        ),
        "model": f"does not cover it: {_models(asks, spec.model)}",
        "share": f"does not cover it: it is for shares of {spec.memory} MiB, and the pod asks for {what}",
        "count": f"does not cover it: it asks for {what}",
        "used-up": f"does not cover it: {_use(pod, found, asks)}",
        "place": f"does not cover it where it runs: others are guaranteed GPUs of {pod.spec.node_name}",
    }
    each = f" with {spec.memory} MiB each" if spec.memory else ""
    return f"The booking {booking.name} of {spec.count} x {spec.model}{each} {ends[found.kind]}."


def way_of(resource: str) -> str:
    """How people call the way in which a pod asks for devices: the resource, or ``GPUs by claims``."""
    return "GPUs by claims" if resource == names.CLAIM_RESOURCE else resource


def _given(resource: str) -> str:
    return "given by claims" if resource == names.CLAIM_RESOURCE else resource


def _wanted(asks: Candidate) -> str:
    share = asks.wants.shares.share if asks.wants.shares else None
    return share.text if share else counted(asks.gpus, "GPU")


def _models(asks: Candidate, booked: str) -> str:
    if asks.has:
        return f"its GPUs are {listed(sorted(model or 'of unknown model' for model in asks.has))}"
    if booked in asks.refuses:
        return "it refuses that model"
    return f"it accepts {' or '.join(sorted(asks.accepts))} only"


def _use(pod: Pod, found: Coverage, asks: Candidate) -> str:
    named = [_name(other, pod) for other in found.users]
    more = len(named) - _NAMED
    by = listed([*named[:_NAMED], *([f"{more} more"] if more > 0 else [])])
    if found.left is None:
        besides = f" besides what {by} {'use' if len(named) > 1 else 'uses'}" if by else ""
        return f"it asks for {_wanted(asks)}, and there is too little of it left{besides}"
    if found.left <= 0:
        return f"all of it is used by {by}"
    users = f" besides those of {by}" if by else ""
    left = f"{found.left} of it {'is' if found.left == 1 else 'are'} left{users}"
    return f"it asks for {_wanted(asks)}, and {left}"


def _name(other: Pod, pod: Pod) -> str:
    return other.metadata.name if other.metadata.namespace == pod.metadata.namespace else other.key


def changes(known: Covered) -> Iterator[str]:
    """What would let a booking cover the pod."""
    found = known.found
    if known.user is None:
        yield (
            "A pod belongs to the person who creates it. For pods of controllers an administrator writes "
            f"the owner on the namespace ({names.OWNER})."
        )
    elif known.resources:
        yield INSTEAD
    elif found.kind == "covered" and found.booking:
        until = at(found.booking.spec.end)
        yield f"Extending the booking {found.booking.name} before {until} keeps its cover."
    elif found.booking is None or found.asks is None:
        if found.asks is not None or found.kind == "none":
            yield f"A running booking of {known.user}'s with enough GPUs of the right model would cover it."
    else:
        yield from _ways(found, found.booking, found.asks)


def _ways(found: Coverage, booking: Booking, asks: Candidate) -> Iterator[str]:
    spec, count = booking.spec, _wanted(asks)
    ways = {
        "later": f"From {at(spec.start)} on the booking {booking.name} covers it.",
        "namespace": f"In the namespace {spec.namespace} the booking would cover it; or change the booking.",
        "resource": (
            f"Asking for {way_of(spec.resource)} in place of {way_of(asks.resource)} would let the booking"
            " cover it."
        ),
        "model": f"A booking of what it has or accepts would cover it. This one is for {spec.model}.",
        "share": f"A booking of {count}, or of whole GPUs, would cover it.",
        "count": f"A booking of at least {count} would cover it.",
        "used-up": f"When pods that use the booking end and leave {count} of it, it covers this one.",
        "place": (
            "Created again, it gets its GPUs on another node for certain. As it is, it stays until a booked"
            " pod needs its GPUs, and comes back with GPUs then unless it asks for something else."
        ),
    }
    yield ways[found.kind]
