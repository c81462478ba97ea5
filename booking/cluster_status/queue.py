"""The lines of waiting pods for a user, who learns of others what the policy says."""

from datetime import datetime

import msgspec

from booking.cluster_status.snapshot import StatusSnapshot
from booking.cluster_status.viewer import Viewer
from booking.eviction.holder_cache import HolderCache
from booking.fair_shares.queue import ModelQueue, Waiting, queues
from booking.fair_shares.standing import tenant_of
from booking.policy.fair_shares import FairShares, Mode
from cluster.decide.fairshare import Tenant


class QueuedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that waits without a booking."""

    position: int
    """1 is the next; 0: GPUs are kept for it, and it is about to start."""
    namespace: str | None
    """None where you may not see whose it is."""
    name: str | None
    user: str | None
    gpus: int
    since: datetime
    """When it was first created."""
    is_mine: bool


class ShareOfUser(msgspec.Struct, frozen=True, kw_only=True):
    """What a user has and deserves of a model without a booking."""

    user: str | None
    """None where you may not see who it is; ``namespace/NAME``: pods there that are nobody's."""
    holds: int
    waits_for: int
    deserves: float
    is_mine: bool


class QueueOfModel(msgspec.Struct, frozen=True, kw_only=True):
    """The line of a model."""

    model: str
    gpus: int
    """GPUs that are shared: those of booked pods, and of pods that never leave, are not."""
    users: tuple[ShareOfUser, ...]
    """Everybody who holds or wants some, by name."""
    pods: tuple[QueuedPod, ...]
    """In the order in which they are served."""


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """Who waits for GPUs without a booking."""

    at: datetime
    mode: Mode
    """How turns are given: by age (off), by fair shares (order), or with giving back, too (reclaim)."""
    models: tuple[QueueOfModel, ...]


def queue_of(snapshot: StatusSnapshot, viewer: Viewer, shares: FairShares, *, maia: bool) -> Queue:
    """All lines, as a user may see them."""
    mode = shares.effective(maia=maia)
    found = queues(snapshot, HolderCache(), shares, by_age=mode == "off")
    return Queue(
        at=snapshot.now,
        mode=mode,
        models=tuple(_of_model(queue, viewer) for queue in found.values()),
    )


def sentences(snapshot: StatusSnapshot, uid: str, shares: FairShares, viewer: Viewer) -> tuple[str, ...]:
    """What fair shares say of a waiting pod: its place, and what its owner holds and deserves."""
    messages = []
    for queue in queues(snapshot, HolderCache(), shares).values():
        one = next((each for each in queue.waiting if each.pod.metadata.uid == uid), None)
        if one is not None and one.position:
            messages.append(_sentence(queue, one, shares, viewer))
    return tuple(messages)


def _sentence(queue: ModelQueue, one: Waiting, shares: FairShares, viewer: Viewer) -> str:
    tenant = tenant_of(one.pod, shares)
    others = sum(bool(each.user) and each != tenant for each in queue.shares.deserved)
    holds, deserves = queue.shares.held.get(tenant, 0), queue.deserves(tenant)
    whose = "You hold" if viewer.user_of(one.pod) == viewer.who.user else "Its owner holds"
    wanting = "nobody else wants any"
    if others:
        wanting = "one other holds or wants some" if others == 1 else f"{others} others hold or want some"
    return (
        f"{whose} {holds} {queue.model} without a booking, and the fair share is {deserves:.3g} of"
        f" {queue.capacity} ({wanting}). This pod is number {one.position} in line."
    )


def _of_model(queue: ModelQueue, viewer: Viewer) -> QueueOfModel:
    tenants = sorted(tenant for tenant in queue.shares.deserved if tenant.user)
    users = (_share(queue, tenant, viewer) for tenant in tenants)
    return QueueOfModel(
        model=queue.model,
        gpus=queue.capacity,
        users=tuple(users),
        pods=tuple(_pod(one, viewer) for one in queue.waiting),
    )


def _share(queue: ModelQueue, tenant: Tenant, viewer: Viewer) -> ShareOfUser:
    is_mine = tenant.user == viewer.who.user
    is_shown = is_mine or viewer.may_name_user(tenant.user)
    return ShareOfUser(
        user=tenant.user if is_shown else None,
        holds=int(queue.shares.held.get(tenant, 0)),
        waits_for=int(queue.shares.wanted.get(tenant, 0)),
        deserves=round(queue.deserves(tenant), 2),
        is_mine=is_mine,
    )


def _pod(one: Waiting, viewer: Viewer) -> QueuedPod:
    user, is_shown = viewer.user_of(one.pod), viewer.may_name(one.pod)
    meta = one.pod.metadata
    return QueuedPod(
        position=one.position,
        namespace=meta.namespace if is_shown else None,
        name=meta.name if is_shown else None,
        user=user if is_shown else None,
        gpus=one.gpus,
        since=one.since,
        is_mine=user is not None and user == viewer.who.user,
    )
