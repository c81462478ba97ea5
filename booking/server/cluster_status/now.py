"""Nodes and devices with their holders, and who would be evicted next, as a user may see them. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from booking.eviction.eviction_order import order, why
from booking.eviction.maia_grants import granted_until
from booking.server.cluster_status.given import given_as
from booking.server.cluster_status.holder_classes import Classes, HolderClass
from booking.server.cluster_status.snapshot import StatusSnapshot
from booking.server.cluster_status.standings import ModelNow, Standing, Standings, models_now, standings_of
from booking.server.cluster_status.usage import SquatterNow, Used, UseNow
from booking.server.cluster_status.viewer import Viewer
from cluster import names
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.liveness import AgentState
from cluster.decide.predicates import AGENT
from cluster.objects.inventory import Device, is_mixed, is_replica, is_unbookable_claim
from cluster.objects.meta import Instant
from cluster.objects.pods import Pod

NodeState = Literal["ready", "unresponsive", "stopping"]
DeviceState = Literal["free", "booked", "opportunistic", "held", "unhealthy", "partitioned"]

_STATES: Final[dict[AgentState, NodeState]] = {
    "alive": "ready",
    "unresponsive": "unresponsive",
    "unseen": "unresponsive",
    "stopping": "stopping",
}


class ShareNow(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod has of a device that it shares."""

    memory_mib: int
    compute_percent: int
    """0 if none is guaranteed."""


class SharesNow(msgspec.Struct, frozen=True, kw_only=True):
    """What all pods together have of a device that they share."""

    pods: int
    memory_mib: int
    offered_mib: int
    """What the device offers to all of them: less than its memory, since the driver needs some."""
    compute_percent: int


class HolderNow(msgspec.Struct, frozen=True, kw_only=True, rename={"holder_class": "class"}):
    """A pod that holds a device, or for which it is kept; null is what the asker may not see."""

    namespace: str | None
    name: str | None
    user: str | None
    holder_class: HolderClass
    """By what right it holds the device: a booking covers it; nobody evicts it for bookings (protected); MAIA
    has granted it; its booking, or what MAIA has granted, is over (expired); none of these (opportunistic).
    The last two may be evicted for a booked pod."""
    booking: str | None
    until: Instant | None
    """Until when its booking, or what MAIA has granted, keeps the device."""
    memory_used_mib: int | None
    """Memory of the device that its processes use; null where it is not known."""
    share: ShareNow | None
    """Its part of a device that it shares; null if it has all of it."""


class DeviceNow(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU, or a part of one."""

    index: int
    uuid: str
    model: str
    state: DeviceState
    standing: Standing | None
    """How it stands, in the words of ``models``; null for one that is unhealthy, partitioned, in maintenance
    or out of reach."""
    why: str | None
    pods: tuple[HolderNow, ...]
    shares: SharesNow | None
    """What the pods have of it together; null if it is not held in shares."""
    memory_mib: int
    """All of its memory; 0 where the driver does not say."""
    use: UseNow | None
    """How it is used; null where that is not known."""
    squatters: tuple[SquatterNow, ...]
    """Processes on it that it does not belong to."""


class NodeNow(msgspec.Struct, frozen=True, kw_only=True):
    """A node with GPUs."""

    node: str
    state: NodeState
    why: str | None
    devices: tuple[DeviceNow, ...]


class NextNow(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that would be evicted, in its position in the order."""

    namespace: str | None
    name: str | None
    user: str | None
    model: str
    gpus: int
    node: str
    why: str


class Now(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster at one instant."""

    at: Instant
    models: tuple[ModelNow, ...]
    """How many GPUs of each model are bookable, lent, idle though booked and in use."""
    nodes: tuple[NodeNow, ...]
    next: tuple[NextNow, ...]
    """Pods that would be evicted, by model and then in the order of eviction."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The inputs of an answer: the cluster at one instant, and the viewer."""

    snapshot: StatusSnapshot
    viewer: Viewer
    classes: Classes
    standings: Standings


def now_of(snapshot: StatusSnapshot, viewer: Viewer, *, bookable: Mapping[str, int] | None = None) -> Now:
    """The cluster at that instant, as far as this viewer may see it.

    Args:
        snapshot: the cluster.
        viewer: who asks.
        bookable: model -> GPUs that the calendar leaves now; None while it cannot be read.
    """
    classes = Classes(snapshot)
    seen = _Seen(snapshot, viewer, classes, standings_of(snapshot, classes))
    return Now(
        at=snapshot.now.replace(microsecond=0),
        models=models_now(snapshot, seen.standings, bookable),
        nodes=tuple(
            _node(view, agent, seen)
            for view, agent in (snapshot.node_snapshots[name] for name in sorted(snapshot.node_snapshots))
            if view.published or view.fault or agent != "unseen"
        ),
        next=tuple(_next(snapshot, viewer)),
    )


def _node(view: NodeView, agent: AgentState, seen: _Seen) -> NodeNow:
    snapshot = seen.snapshot
    on_hold = {uuid: snapshot.pods[uid] for uuid, uid in view.on_hold.items() if uid in snapshot.pods}
    parents = {device.parent for device in view.devices}
    used = Used(snapshot.uses.get(view.name) if agent == "alive" else None, snapshot.now, seen.viewer)
    ordered = sorted(view.devices, key=lambda device: (device.index, device.uuid))
    return NodeNow(
        node=view.name,
        state=_STATES[agent],
        why=_problem(view, agent, snapshot),
        devices=tuple(
            _device(device, view, used, on_hold=on_hold, seen=seen, is_partitioned=device.uuid in parents)
            for device in ordered
        ),
    )


def _problem(view: NodeView, agent: AgentState, snapshot: StatusSnapshot) -> str | None:
    node = snapshot.nodes.get(view.name)
    if agent != "alive":
        return _message(AGENT[agent])
    if view.fault:
        return _message(view.fault)
    if unknown := sum(view.unknown.values()):
        return f"Pods hold {unknown} devices, and it is not known which."
    if node and node.spec.unschedulable:
        return "The node is cordoned."
    return _less(view, is_counted=bool(node and node.metadata.annotation(names.COUNTED)))


def _less(view: NodeView, *, is_counted: bool) -> str | None:
    """What is less known, or less can be had, where another device plugin gives out the GPUs."""
    if not view.is_numbered:
        return None
    found = ["Another device plugin gives out its GPUs, and the kubelet chooses which one a pod gets."]
    if is_counted:
        found.append(
            "No node agent runs there: models are those of the labels, and why a GPU is sick and how it is"
            " used is not known."
        )
    if any(map(is_replica, view.devices)):
        found.append("It gives out turns on its GPUs (replicas), which cannot be booked.")
    if any(map(is_mixed, view.devices)):
        found.append("They are of several models, so that no pod can ask for one, and they cannot be booked.")
    return " ".join(found)


def _device(
    device: Device,
    view: NodeView,
    used: Used,
    *,
    on_hold: Mapping[str, Pod],
    seen: _Seen,
    is_partitioned: bool,
) -> DeviceNow:
    snapshot = seen.snapshot
    holders = [snapshot.pods[uid] for uid in view.holders(device.uuid) if uid in snapshot.pods]
    state, reason = _state(device, view, on_hold, snapshot, is_partitioned=is_partitioned)
    shown = holders or ([on_hold[device.uuid]] if device.uuid in on_hold else [])
    return DeviceNow(
        index=device.index,
        uuid=device.uuid,
        model=device.model,
        state=state,
        standing=seen.standings.get((view.name, device.uuid)),
        why=reason or given_as(device, view, used, holders),
        pods=tuple(
            _holder(pod, device, view, seen, memory=used.memory(device.uuid, pod.metadata.uid))
            for pod in shown
        ),
        shares=_shares(device, view),
        memory_mib=device.memory,
        use=used.of(device.uuid),
        squatters=used.squatters(device.uuid),
    )


def _state(
    device: Device,
    view: NodeView,
    on_hold: Mapping[str, Pod],
    snapshot: StatusSnapshot,
    *,
    is_partitioned: bool,
) -> tuple[DeviceState, str | None]:
    uids = view.holders(device.uuid)
    if not device.is_healthy:
        return "unhealthy", _message(device.reason or "the driver does not say why")
    if is_partitioned:
        return "partitioned", "It is partitioned into MIG devices."
    if any(uid in snapshot.cover for uid in uids):
        return "booked", None
    if uids and not _is_of_claims(device, view):
        is_outgoing = not snapshot.outgoing.isdisjoint(uids) or device.uuid in on_hold
        who = "Its pod" if len(uids) == 1 else "Pods on it"
        return "opportunistic", f"{who} must leave for a booked one." if is_outgoing else None
    if device.uuid in on_hold:
        return "held", "It is kept for a booked pod that is about to start."
    return _unheld(device, view)


def _is_of_claims(device: Device, view: NodeView) -> bool:
    """Whether those that have the device are claims without a pod."""
    return all(each.users is not None for each in view.holdings if device.uuid in each.devices)


def _unheld(device: Device, view: NodeView) -> tuple[DeviceState, str | None]:
    """The state of a healthy device that no pod has, and that is kept for none."""
    if view.holders(device.uuid):
        return "held", "A claim has it, and no pod that runs."
    if device.uuid in view.reserved:
        return "held", "It is open for shares, and nobody has one."
    return "free", "Claims give it: it cannot be booked." if is_unbookable_claim(device) else None


def _shares(device: Device, view: NodeView) -> SharesNow | None:
    use = view.held.get(device.uuid)
    if use is None or not use.shares:
        return None
    return SharesNow(
        pods=use.shares - (device.uuid in view.reserved),
        memory_mib=use.memory,
        offered_mib=device.share.memory if device.share else device.memory,
        compute_percent=use.compute,
    )


def _holder(pod: Pod, device: Device, view: NodeView, seen: _Seen, *, memory: int | None) -> HolderNow:
    uid, viewer, is_seen = pod.metadata.uid, seen.viewer, seen.viewer.may_name(pod)
    booking = seen.snapshot.cover.get(uid)
    holding = next((one for one in view.holdings if one.uid == uid), None)
    right = seen.classes.of(pod, holding)
    part = holding.devices.get(device.uuid) if holding else None
    granted = granted_until(pod, seen.snapshot.terms) if right == "granted" else None
    until = booking.spec.end if booking else granted
    return HolderNow(
        namespace=pod.metadata.namespace if is_seen else None,
        name=pod.metadata.name if is_seen else None,
        user=viewer.user_of(pod) if is_seen else None,
        holder_class=right,
        booking=booking.name if booking and is_seen else None,
        until=until if is_seen else None,
        memory_used_mib=memory,
        share=ShareNow(memory_mib=part.memory, compute_percent=part.compute) if part and part.mode else None,
    )


def _next(snapshot: StatusSnapshot, viewer: Viewer) -> Iterator[NextNow]:
    alive = [name for name, (_, agent) in snapshot.node_snapshots.items() if agent == "alive"]
    position: dict[str, int] = {}
    for one in order(snapshot, excluded=snapshot.outgoing, nodes=alive):
        position[one.model] = position.get(one.model, 0) + one.is_first
        pod = snapshot.pods[one.uid]
        is_seen = viewer.may_name(pod)
        yield NextNow(
            namespace=pod.metadata.namespace if is_seen else None,
            name=pod.metadata.name if is_seen else None,
            user=viewer.user_of(pod) if is_seen else None,
            model=one.model,
            gpus=one.gpus,
            node=one.node,
            why=why(one, position=position[one.model]),
        )


def _message(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:].rstrip('.')}."
