"""The status of a hold at one instant: whether it is still valid, and what it waits for. Pure."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from booking.controller.reclaimer.need import Need
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from cluster.decide.ledger import NodeView
from cluster.decide.predicates import AGENT, rejection
from cluster.decide.protection import is_stuck
from cluster.decide.request import gpu_request_of, with_model
from cluster.decide.scheduler_filters import Checker, checker_for
from cluster.objects.bookings import Booking
from cluster.objects.device_selector import device_selector_of
from cluster.objects.gangs import gang_of
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod, is_live, is_terminating

NOT_COVERED: Final = "the pod is not covered by a running booking any more"
HAS_OTHERS: Final = "its claims have got other devices"
NO_TURN: Final = "pods get no turns by fair shares any more, or its node is gone"


@dataclass(frozen=True, slots=True)
class HoldStatus:
    """Whether a hold can be kept at this instant, and what it waits for."""

    free: frozenset[str] = frozenset()
    """Devices of it that no pod holds."""
    victims: tuple[Pod, ...] = ()
    """Pods whose devices or room it needs, and that are not terminating."""
    complete: bool = False
    """Whether every device is free and every victim gone: the pod can be bound."""
    problem: str | None = None
    """Why it is not valid, None when it is."""
    passing: bool = False
    """The problem is one that usually passes within seconds."""
    crowded: bool = False
    """Whether a victim left for it and others have taken the room: the next victim might leave in vain,
    too."""


def hold_status(pod: Pod, hold: Hold, snapshot: ReclaimerSnapshot) -> HoldStatus:
    """Check the hold of a pod that is not bound, before it is acted on."""
    need = snapshot.needs.get(pod.metadata.uid)
    if need is None:
        return HoldStatus(problem=NO_TURN if hold.need == "share" else NOT_COVERED)
    if problem := _node_problem(hold, snapshot):
        return HoldStatus(problem=problem, passing=problem == AGENT["stopping"])
    if problem := _room_problem(pod, hold, snapshot):
        return HoldStatus(problem=problem, crowded=_is_crowded(pod, hold, snapshot))
    view = snapshot.node_snapshots[hold.node][0]
    if problem := _device_problem(pod, hold, need, snapshot):
        return HoldStatus(problem=problem)
    if hold.memory is not None:
        return _sharers(pod, hold, need.booking, snapshot)
    return _holders(pod, hold, view, snapshot)


def _device_problem(pod: Pod, hold: Hold, need: Need, snapshot: ReclaimerSnapshot) -> str | None:
    """Why the pod is not to have these devices, whoever has them now."""
    if _has_others(pod, hold, snapshot):
        return HAS_OTHERS
    view = snapshot.node_snapshots[hold.node][0]
    healthy = view.healthy_by_model.get(need.resource, {}).get(need.model, ())
    takes = replace(device_selector_of(with_model(pod, need.model)), models=frozenset({need.model})).takes
    if not {device.uuid for device in healthy if takes(device)}.issuperset(hold.devices):
        return "a device of it is not healthy any more, or not one that the pod is to have"
    # Bookings are above turns: the other hold is about to be dropped.
    mine = {pod.metadata.uid, *(snapshot.turns if need.booking else ())}
    if any(view.on_hold.get(uuid, pod.metadata.uid) not in mine for uuid in hold.devices):
        return "a device of it is kept for another pod"
    return None


def _node_problem(hold: Hold, snapshot: ReclaimerSnapshot) -> str | None:
    node, node_snapshot = snapshot.nodes.get(hold.node), snapshot.node_snapshots.get(hold.node)
    if node is None or node_snapshot is None:
        return "the node is gone"
    view, agent = node_snapshot
    if agent != "alive":
        return AGENT[agent]
    return view.fault


def _has_others(pod: Pod, hold: Hold, snapshot: ReclaimerSnapshot) -> bool:
    """Whether the pod has devices that nobody has to leave for, while some victim of its hold is still there.

    kube-scheduler gives a claim whatever fits and is free first. Without a victim the hold hurts nobody, and
    goes with the bind.
    """
    if pod.claims is None or pod.claims.node is None:
        return False
    theirs = {one.device for one in pod.claims.held if one.node == hold.node}
    view = snapshot.node_snapshots[hold.node][0]
    kept = {device.claimed_as for device in view.devices if device.uuid in hold.devices}
    return not kept <= theirs and any((v := snapshot.pods.get(uid)) and is_live(v) for uid in hold.victims)


def _room_problem(pod: Pod, hold: Hold, snapshot: ReclaimerSnapshot) -> str | None:
    """Why the pod would not be placed on the node, its victims gone."""
    node = snapshot.nodes[hold.node]
    return _checker(pod, hold, snapshot).why_not(node, without=frozenset(hold.victims))


def _is_crowded(pod: Pod, hold: Hold, snapshot: ReclaimerSnapshot) -> bool:
    """Whether other pods have taken the room, though a victim has left for the pod.

    A victim that comes back without a GPU may be faster than the pod that it left for.
    """
    left = [uid for uid in hold.victims if (v := snapshot.pods.get(uid)) is None or is_terminating(v)]
    return bool(left) and _checker(pod, hold, snapshot).unresolvable_reason(snapshot.nodes[hold.node]) is None


def _checker(pod: Pod, hold: Hold, snapshot: ReclaimerSnapshot) -> Checker:
    """A checker for the pod, with the pods that other holds will bring to the node."""
    cluster_objects = snapshot.cluster_objects
    for uid, other in snapshot.holds_on.get(hold.node, ()):
        if uid != pod.metadata.uid and uid in snapshot.pods:
            gone = {one.uid for one in cluster_objects.pods_on(hold.node).others}.intersection(other.victims)
            cluster_objects = cluster_objects.placing(snapshot.pods[uid], hold.node, without=frozenset(gone))
    return checker_for(pod, cluster_objects)


def _holders(pod: Pod, hold: Hold, view: NodeView, snapshot: ReclaimerSnapshot) -> HoldStatus:
    """The status by the pods that still hold the devices or take the room: a problem if one may not leave."""
    claims, kept = _claims_there(pod, view, snapshot)
    holders = {uuid: set(view.holders(uuid)) - claims for uuid in hold.devices}
    # A reservation pod goes by itself, once nobody shares its GPU.
    free = frozenset(uuid for uuid, uids in holders.items() if not uids and uuid not in view.reserved)
    in_the_way = {uid for uids in holders.values() for uid in uids} - kept
    victims: dict[str, Pod] = {}
    mates = {uid for uid in hold.victims if (v := snapshot.pods.get(uid)) and is_live(v) and gang_of(v)}
    for uid in sorted(in_the_way | mates | _crowding(pod, hold, in_the_way | mates, snapshot)):
        holder = snapshot.pods.get(uid)
        if holder is not None and is_terminating(holder):
            if is_stuck(holder, snapshot.now):
                return HoldStatus(problem=f"the pod {holder.key} should have gone long ago, and has not")
            continue
        if holder is None or uid not in hold.victims:
            return HoldStatus(problem="a device of it was given to another pod meanwhile")
        if reason := snapshot.policy.protection(holder, snapshot.holding(holder), snapshot):
            return HoldStatus(problem=f"the pod {holder.key} may not be evicted any more: {reason}")
        victims[uid] = holder
    victim_pods = (snapshot.pods.get(uid) for uid in hold.victims)
    return HoldStatus(
        free=free,
        victims=tuple(victims.values()),
        complete=len(free) == len(hold.devices)
        and not victims
        and not any(victim and _is_leaving(victim, snapshot) for victim in victim_pods),
    )


def _claims_there(
    pod: Pod, view: NodeView, snapshot: ReclaimerSnapshot
) -> tuple[frozenset[str], frozenset[str]]:
    """(claims that have their devices for this pod, claims that are about to give theirs back), by uid.

    A claim has its devices until Kubernetes takes them from it, a moment after its last pod has gone.
    """
    mine = frozenset(pod.claims.uids if pod.claims else ())
    without_pods = {
        holding.uid
        for holding in view.holdings
        if holding.users is not None
        and not any((user := snapshot.pods.get(uid)) and is_live(user) for uid in holding.users)
    }
    return mine, frozenset(without_pods) - mine


def _sharers(pod: Pod, hold: Hold, booking: Booking | None, snapshot: ReclaimerSnapshot) -> HoldStatus:
    """The status of a hold for shares: of those who have shares of its devices, those stay who leave room."""
    mine, returned = _claims_there(pod, snapshot.node_snapshots[hold.node][0], snapshot)
    view = snapshot.node_snapshots[hold.node][0].without_pods(mine)
    request = replace(gpu_request_of(pod, booking), hold=hold)
    theirs = {uid: snapshot.pods.get(uid) for uuid in hold.devices for uid in view.holders(uuid)}
    after = view.without_pods(returned)
    for uid, holder in theirs.items():
        if holder is not None and is_stuck(holder, snapshot.now):
            if uid in hold.victims:
                return HoldStatus(problem=f"the pod {holder.key} should have gone long ago, and has not")
        elif uid in hold.victims or (holder is not None and is_terminating(holder)):
            after = after.without(uid)
    if rejection(request, after, "alive") is not None:
        return HoldStatus(problem="room that is kept for it was given to another pod meanwhile")
    in_the_way = theirs.keys() & set(hold.victims)
    victims: list[Pod] = []
    for uid in sorted(in_the_way | _crowding(pod, hold, in_the_way, snapshot)):
        victim = snapshot.pods.get(uid)
        if victim is None or is_terminating(victim):
            continue
        if reason := snapshot.policy.protection(victim, snapshot.holding(victim), snapshot):
            return HoldStatus(problem=f"the pod {victim.key} may not be evicted any more: {reason}")
        victims.append(victim)
    named = (snapshot.pods.get(uid) for uid in hold.victims)
    is_awaited = any(victim and _is_leaving(victim, snapshot) for victim in named)
    return HoldStatus(
        free=frozenset(hold.devices),
        victims=tuple(victims),
        complete=not victims and not is_awaited and rejection(request, view, "alive") is None,
    )


def _is_leaving(victim: Pod, snapshot: ReclaimerSnapshot) -> bool:
    """Whether the victim is terminating and does not hang: the room of a hanging one is not waited for."""
    return is_terminating(victim) and not is_stuck(victim, snapshot.now)


def _crowding(
    pod: Pod, hold: Hold, in_the_way: AbstractSet[str], snapshot: ReclaimerSnapshot
) -> frozenset[str]:
    """Victims that hold none of the devices, but must leave to make room for the pod."""
    node = snapshot.nodes[hold.node]
    others = [
        uid
        for uid in sorted(set(hold.victims) - in_the_way)
        if (known := snapshot.pods.get(uid)) and is_live(known) and known.spec.node_name == hold.node
    ]
    if not others:
        return frozenset()
    checker, gone = _checker(pod, hold, snapshot), frozenset(hold.victims)
    for uid in others:
        if checker.why_not(node, without=gone - {uid}) is None:
            gone -= {uid}
    return gone.intersection(others)
