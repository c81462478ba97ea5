"""Messages about a pod that is not bound yet: why, and what would change that."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from cluster import names
from cluster.decide import node_fit
from cluster.decide.claims.problems import TOO_MANY
from cluster.decide.explain.holders import MayName, holders
from cluster.decide.explain.owner_waits import late_nodes, until_they_change
from cluster.decide.explain.scheduler_message import of_its_own, whole
from cluster.decide.explain.snapshot import ExplanationSnapshot, at, capital, counted, few, listed
from cluster.decide.explain.waiting import LASTING, hold_message, why_waiting
from cluster.decide.ledger.holdings import PodHoldings
from cluster.decide.predicates import BOOKED_BY_OTHERS, HELD_NOT_FREE, OWNER_WAITS, rejection
from cluster.decide.protection import never_evicted_reason
from cluster.decide.reasons import ALL, Reason
from cluster.decide.request import GpuRequest, gpu_request_of
from cluster.objects.bookings import Booking
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod
from cluster.objects.quantity import QuantityError
from cluster.objects.scheduling_gates import is_gated, is_queued, other_gates

_FOREVER: Final = {
    node_fit.TAINTED: "a toleration of the node's taint",
    node_fit.NOT_SELECTED: "another node selector or node affinity",
    node_fit.TOO_BIG: "smaller requests, or a larger node",
}
_CHANGES: Final[Mapping[str, str]] = {
    **{cause.code: cause.change for cause in ALL},
    **_FOREVER,
    node_fit.NOT_READY: "the node becomes ready",
    node_fit.CORDONED: "`kubectl uncordon`; or a toleration of the node's taint",
}
"""Code of a reason, or why a node does not suit -> what would change it."""
_NEVER: Final = LASTING | _FOREVER.keys()


_WHEN_TRIED: Final = ("It is bound by itself once the scheduler has tried it.",)
_IN_LINE: Final = (
    f"It is in line behind the scheduling gate {names.QUEUE}, and has not been offered to the scheduler."
)
_IN_LINE_AS_LATE: Final = (
    "It is in line without a scheduling gate, since its claims came after it: no node is open to it before"
    " its turn."
)
_WHEN_ITS_TURN: Final = ("It is offered to the scheduler by itself, after those that were there before it.",)
_WHEN_SEEN_FREE: Final = (
    "It is bound when kube-scheduler finds free GPUs for its claims.",
    "Others leave for it once it is known which ones would do.",
)
_WHEN_GIVEN: Final = ("A claim without that `config`, or another `config` of its DeviceClass.",)
_WHEN_SMALLER: Final = ("Several claims, each of them for fewer devices.",)
_WHEN_GIVEN_BACK: Final = (
    "It is bound there once the other claim has given it back.",
    "Let only GPU Booking's scheduler allocate claims: two schedulers give the same GPU away.",
)
_WHEN_FREE: Final = ("It is bound by itself as soon as all of its GPUs are free.",)


@dataclass(frozen=True, slots=True)
class Waits:
    """Why a pod is not bound."""

    because: tuple[str, ...]
    would_change: tuple[str, ...] = ()
    is_settled: bool = False
    """Whether nothing needs to be added about waiting until GPUs become free."""
    is_hopeless: bool = False
    """Whether neither the leaving of a pod nor a booking would help."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """The pod's request and booking."""

    request: GpuRequest
    booking: Booking | None
    """The booking that covers the pod."""


def waits(pod: Pod, snapshot: ExplanationSnapshot, booking: Booking | None, may_name: MayName) -> Waits:
    """Why a pod is not bound yet.

    Args:
        pod: the waiting pod.
        snapshot: the cluster.
        booking: the booking that covers it.
        may_name: which pods may be named.
    """
    if gates := other_gates(pod):
        gate = listed(gates)
        gated = f"It has not been offered to the scheduler: scheduling gate {gate}."
        return Waits(
            (gated,), (f"It is offered once the owner of {gate} removes that gate.",), is_settled=True
        )
    try:
        request = snapshot.share_places().confined(gpu_request_of(pod, booking), booking)
    except QuantityError:
        return Waits(("What it asks for cannot be read.",), is_settled=True)
    if request.hold:
        return Waits(tuple(_of_hold(pod, request, request.hold, snapshot)), _WHEN_FREE, is_settled=True)
    if found := _of_claims(pod, request, snapshot):
        return found
    return _of_the_cluster(pod, request, snapshot, may_name) or _node_by_node(
        pod, _Waiting(request, booking), snapshot, may_name
    )


def _of_the_cluster(
    pod: Pod, request: GpuRequest, snapshot: ExplanationSnapshot, may_name: MayName
) -> Waits | None:
    """Why no node can serve it; None where one can."""
    if message := why_waiting(request, (view for view, _ in snapshot.node_snapshots.values())):
        late = late_nodes(pod, request, snapshot)
        known = (
            str(message),
            *([f"{few(late)}: {OWNER_WAITS}."] if late and message.code != OWNER_WAITS.code else []),
            *until_they_change(late, snapshot, may_name),
            *_of_scheduler(pod),
            *_why_no_hold(pod),
            *holders(pod, request, snapshot, may_name),
        )
        if late:
            return Waits(known, (f"{few(late)}: {_CHANGES[OWNER_WAITS.code]}.",))
        lasts = message.code in LASTING
        changes = (capital(_CHANGES[message.code]),) if lasts else ()
        return Waits(known, changes, is_settled=lasts, is_hopeless=lasts)
    return None


def _of_hold(pod: Pod, request: GpuRequest, hold: Hold, snapshot: ExplanationSnapshot) -> Iterator[str]:
    yield hold_message(hold)
    node_snapshot = snapshot.node_snapshots.get(hold.node)
    if node_snapshot is None:
        yield f"There is no node {hold.node} now."
        return
    free = sum(map(node_snapshot[0].is_unheld, hold.devices))
    if hold.memory is None:
        yield f"Of {len(hold.devices)} kept for it {'1 is' if free == 1 else f'{free} are'} free already."
    if any(each.users is not None and _is_over(each, hold, snapshot) for each in node_snapshot[0].holdings):
        yield "Kubernetes is about to take what is missing from a claim that no pod uses any more."
    if remaining := sum(uid in snapshot.pods for uid in hold.victims):
        yield f"{counted(remaining, 'pod')} {'has' if remaining == 1 else 'have'} still to leave."
    why = rejection(request, *node_snapshot)
    if why and why != HELD_NOT_FREE:
        yield f"{hold.node}: {why}."
    if message := pod.metadata.annotation(names.BLOCKED):
        yield message


def _closes(request: GpuRequest, node: str, snapshot: ExplanationSnapshot) -> bool:
    """Whether the node takes no such pod now, though its claims have their devices there."""
    known = snapshot.node_snapshots.get(node)
    return known is None or rejection(request, *known) is not None


def _is_over(holding: PodHoldings, hold: Hold, snapshot: ExplanationSnapshot) -> bool:
    """Whether it is of a claim without pods that has some of the kept devices."""
    users = holding.users or ()
    return not holding.devices.keys().isdisjoint(hold.devices) and snapshot.pods.keys().isdisjoint(users)


def _of_claims(pod: Pod, request: GpuRequest, snapshot: ExplanationSnapshot) -> Waits | None:
    """Why a pod waits whose claims have their devices, or of which it is not known what they would take."""
    node = request.allocated_on
    if node and not _closes(request, node, snapshot):
        if twice := _had_by_others_too(request, node, snapshot):
            there = f"Its claims have their GPUs on {node}, but another claim has {listed(twice)}, too."
            return Waits((there, *_of_scheduler(pod)), _WHEN_GIVEN_BACK, is_settled=True)
        there = f"Its claims have their GPUs on {node}; it is about to be bound there."
        return Waits((there, *_of_scheduler(pod)), is_settled=True)
    if pod.claims and pod.claims.refusal:
        because = f"{pod.claims.refusal}: so its claims would be refused, and no pod leaves for it."
        change = _WHEN_SMALLER if pod.claims.refusal == TOO_MANY else _WHEN_GIVEN
        return Waits((because, *_of_scheduler(pod)), change, is_settled=True, is_hopeless=True)
    if doubt := request.selector.doubt:
        because = f"It is not known which GPUs its claims would take: {doubt}. So no pod leaves for it."
        return Waits((because, *_of_scheduler(pod)), _WHEN_SEEN_FREE, is_settled=True)
    return None


def _had_by_others_too(request: GpuRequest, node: str, snapshot: ExplanationSnapshot) -> list[str]:
    """Names of those devices of the pod's claims that other claims have, too."""
    view = snapshot.node_snapshots[node][0]
    twice = {device.claimed_as for device in view.devices if device.uuid in view.conflicts}
    return sorted(request.allocated & twice)


def _node_by_node(pod: Pod, waiting: _Waiting, snapshot: ExplanationSnapshot, may_name: MayName) -> Waits:
    by_reason = _reasons(pod, waiting, snapshot)
    fits = by_reason.pop(None, [])
    because = [f"There are free GPUs for it on {few(fits)}."] if fits else []
    because += [f"{few(nodes)}: {why}." for why, nodes in by_reason.items()]
    because += _planned(by_reason.get(BOOKED_BY_OTHERS, ()), waiting.booking, snapshot)
    changes = {why: _CHANGES[_key(why)] for why in by_reason if why and _key(why) in _CHANGES}
    would_change = tuple(f"{few(by_reason[why])}: {change}." for why, change in changes.items())
    if fits and is_queued(pod):
        return Waits((*because, _in_line(pod)), _WHEN_ITS_TURN, is_settled=True)
    if fits:
        name = f" {pod.spec.scheduler_name}" if pod.spec.scheduler_name else ""
        because.append(whole(pod) or f"The scheduler{name} has not tried it yet, or is about to bind it.")
        return Waits((*because,), would_change if whole(pod) else _WHEN_TRIED, is_settled=True)
    because += until_they_change(by_reason.get(OWNER_WAITS, []), snapshot, may_name)
    because += [*_of_scheduler(pod), *_why_no_hold(pod), *holders(pod, waiting.request, snapshot, may_name)]
    is_never = bool(by_reason) and all(why and _key(why) in _NEVER for why in by_reason)
    return Waits((*because,), would_change, is_settled=is_never, is_hopeless=is_never)


def _key(why: str) -> str:
    return why.code if isinstance(why, Reason) else why


def _reasons(pod: Pod, waiting: _Waiting, snapshot: ExplanationSnapshot) -> dict[str | None, list[str]]:
    """Reason -> the nodes with it; None -> the nodes that have free GPUs for the pod."""
    found: dict[str | None, list[str]] = {}
    for name, (view, agent) in sorted(snapshot.node_snapshots.items()):
        if view.published or view.fault:
            node = snapshot.nodes.get(name)
            why = (node_fit.node_rejection(pod, node) if node else None) or rejection(
                waiting.request, view, agent
            )
            if why is None and not _is_allowed(pod, waiting, name, snapshot):
                why = BOOKED_BY_OTHERS
            found.setdefault(why, []).append(name)
    return found


def _is_allowed(pod: Pod, waiting: _Waiting, node: str, snapshot: ExplanationSnapshot) -> bool:
    """Whether every other booking would still find a place if the pod were on the node."""
    booking, need = waiting.booking, waiting.request.devices
    if not need:
        return True
    if booking is None:
        stays = never_evicted_reason(pod, namespaces=snapshot.namespaces, home=snapshot.home)
        return (
            not stays
            or snapshot.permanent_pods is None
            or snapshot.permanent_pods.allows_permanent(node, waiting.request.takes, waiting.request.models)
        )
    known = snapshot.placement_checks.get(booking.spec.model)
    return known is None or known.allows(booking.name, node, need)


def _planned(nodes: Iterable[str], booking: Booking | None, snapshot: ExplanationSnapshot) -> Iterator[str]:
    """How many other bookings are planned on these nodes. None is named: not every reader may know whose."""
    for node in nodes:
        there = [one for one in snapshot.bookings.values() if _is_beside(one, booking, node, snapshot)]
        if there:
            begin = min(one.spec.start for one in there)
            until = max(one.spec.end for one in there)
            since = f"from {at(begin)} " if begin > snapshot.now else ""
            yield f"{node} is planned for {counted(len(there), 'other booking')}, {since}until {at(until)}."


def _is_beside(one: Booking, booking: Booking | None, node: str, snapshot: ExplanationSnapshot) -> bool:
    if booking is None or one.name == booking.name or one.spec.model != booking.spec.model:
        return False
    return one.spec.end > snapshot.now and any(place.node == node for place in one.spec.places)


def _of_scheduler(pod: Pod) -> Iterator[str]:
    if is_queued(pod):
        yield _in_line(pod)
    elif own := of_its_own(pod):
        yield own


def _in_line(pod: Pod) -> str:
    return _IN_LINE if is_gated(pod) else _IN_LINE_AS_LATE


def _why_no_hold(pod: Pod) -> Iterator[str]:
    """What keeps the reclaimer from making room for the pod, as written on it."""
    if barred := sorted(part for part in (pod.metadata.annotation(names.BARRED) or "").split(",") if part):
        yield f"Nothing is kept for it on {few(barred)} for a while: it did not help there."
    if message := pod.metadata.annotation(names.BLOCKED):
        yield message
    elif since := pod.metadata.annotation(names.BUDGETS_SINCE):  # by a controller before 0.3
        yield f"Disruption budgets alone keep others from leaving for it, since {since}."
