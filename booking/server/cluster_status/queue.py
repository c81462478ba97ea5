"""The lines of waiting pods for a user, who learns of others what the policy says."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from booking import wording
from booking.eviction.holder_cache import HolderCache
from booking.fair_shares.queue import NOTHING_OWED, Gathering, ModelQueue, Waiting, queues
from booking.fair_shares.standing import tenant_of
from booking.policy.fair_shares import FairShares, Mode
from booking.server.cluster_status.snapshot import StatusSnapshot
from booking.server.cluster_status.viewer import Viewer
from cluster.decide.fairshare import Books, Tenant
from cluster.objects.gangs import gang_of
from cluster.objects.pods import Pod

_EXACT: Final = 20
"""Minutes up to which they are said exactly."""


class QueuedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that waits without a booking, or the first pod of a gang."""

    position: int | None
    """1 is the next; 0: GPUs are kept for it, and it is about to start."""
    namespace: str | None
    """None where you may not see whose it is."""
    name: str | None
    user: str | None
    gpus: int
    """Of a gang, those of all of its pods that wait."""
    since: datetime
    """When it was first created."""
    is_mine: bool
    turn_due: datetime | None = None
    """When its user has waited long enough for what it needs above the share, if nothing changes; null where
    it needs no turn."""
    taken_at: datetime | None = None
    """When GPUs of others are taken back for it if nothing changes; null where that is not known."""
    gang_size: int | None = None
    """How many pods start together with it, itself included; null for a single pod."""
    gang_pods: int | None = None
    """How many of them exist; while that is fewer, the pod waits for the others and has no position."""


class ShareOfUser(msgspec.Struct, frozen=True, kw_only=True):
    """What a user has and deserves of a model without a booking."""

    user: str | None
    """None where you may not see who it is; ``namespace/NAME``: pods there that are nobody's."""
    group: str | None = None
    """The group whose part this is of; null for none."""
    holds: int
    waits_for: int
    deserves: float
    is_mine: bool


class ShareOfGroup(msgspec.Struct, frozen=True, kw_only=True):
    """What the users of a group have and deserve together."""

    group: str
    holds: int
    waits_for: int
    deserves: float
    is_mine: bool
    """Whether you hold or want some in it."""


class QueueOfModel(msgspec.Struct, frozen=True, kw_only=True):
    """The line of a model."""

    model: str
    gpus: int
    """GPUs that are shared: those of booked pods, and of pods that never leave, are not."""
    users: tuple[ShareOfUser, ...]
    """Everybody who holds or wants some, by name."""
    groups: tuple[ShareOfGroup, ...] = ()
    """Those of which somebody does."""
    pods: tuple[QueuedPod, ...]
    """In the order in which they are served, then those that wait for the other pods of their gangs."""

    @property
    def has_turns(self) -> bool:
        """Whether any pod needs more than a share, and a turn for it."""
        return any(pod.turn_due is not None for pod in self.pods)

    @property
    def takes_back(self) -> bool:
        """Whether it is known of any pod when GPUs of others are taken back for it."""
        return any(pod.taken_at is not None for pod in self.pods)


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """Who waits for GPUs without a booking."""

    at: datetime
    mode: Mode
    """How turns are given: by age (off), by fair shares (order), or with giving back, too (reclaim)."""
    models: tuple[QueueOfModel, ...]


def queue_of(
    snapshot: StatusSnapshot,
    viewer: Viewer,
    shares: FairShares,
    *,
    mode: Mode,
    recorded: Mapping[str, Books] = NOTHING_OWED,
) -> Queue:
    """All lines, as a user may see them. Args: mode: in force; recorded: what the controller has recorded."""
    found = queues(snapshot, HolderCache(), shares, by_age=mode == "off", recorded=recorded)
    return Queue(
        at=snapshot.now,
        mode=mode,
        models=tuple(_of_model(queue, viewer) for queue in found.values()),
    )


def sentences(
    snapshot: StatusSnapshot,
    pod: Pod,
    shares: FairShares,
    viewer: Viewer,
    *,
    recorded: Mapping[str, Books] = NOTHING_OWED,
) -> tuple[str, ...]:
    """What fair shares say of a waiting pod: its place, and what its owner holds and deserves."""
    messages: list[str] = []
    gang = gang_of(pod)
    for queue in queues(snapshot, HolderCache(), shares, recorded=recorded).values():
        for one in queue.waiting:
            if one.pod.metadata.uid == pod.metadata.uid or (gang and one.gang == gang):
                if one.position:
                    messages.append(_sentence(queue, one, shares, viewer))
                    more = (_of_gang(one), _of_turn(one, snapshot.now), _of_taking(one, snapshot.now))
                    messages += filter(None, more)
                break
        else:
            messages += (_gathers(one) for one in queue.gathering if one.pod is pod)
    if gang and not messages and pod.metadata.uid not in snapshot.holds and not pod.spec.node_name:
        messages.append(
            f"It is one of a gang of {gang.size} pods, which start together: the nodes have too few GPUs of"
            " one model for all of them."
        )
    return tuple(dict.fromkeys(messages))


def _of_gang(one: Waiting) -> str | None:
    if one.gang is None:
        return None
    return (
        f"It is one of a gang of {one.gang.size} pods, which start together:"
        f" {wording.counted(one.pods, 'pod')} of it need {wording.counted(one.gpus, 'GPU')} at once."
    )


def _of_turn(one: Waiting, now: datetime) -> str | None:
    if one.turn_due is None:
        return None
    begin = "It needs more than the fair share, so it runs in turns, for which its owner pays by waiting."
    left = (one.turn_due - now).total_seconds()
    if left <= 0 and one.taken_at is not None and one.taken_at > now:
        wait = _roughly((one.taken_at - now).total_seconds())
        return (
            f"{begin} Its turn is due: it begins in {wait}, once pods may be evicted that are protected now."
        )
    if left <= 0:
        return (
            f"{begin} Its turn is due: it begins once others' pods end, are protected no more, or save their"
            " work, of which a turn destroys only so much."
        )
    return f"{begin} If nothing changes, its turn is due in {_roughly(left)}."


def _of_taking(one: Waiting, now: datetime) -> str | None:
    if one.taken_at is None or one.turn_due is not None:
        return None
    if one.taken_at <= now:
        return "Others hold what its owner lacks: GPUs are taken back from them for it now."
    return (
        "Others hold what its owner lacks. If nothing changes, GPUs are taken back from them for it in"
        f" {_roughly((one.taken_at - now).total_seconds())} (at {_minute(one.taken_at)}): then what was"
        " withheld is worth the work that is lost, and nobody who leaves is protected any more."
    )


def _minute(at: datetime) -> str:
    """To the minute, not before: ``2026-11-23 10:05 UTC``."""
    up = at + timedelta(seconds=-(at.second + at.microsecond / 1e6) % 60)
    return up.strftime("%Y-%m-%d %H:%M UTC")


def _gathers(one: Gathering) -> str:
    return (
        f"It waits for the other pods of its gang: {one.there} of {one.gang.size} exist. They start together."
    )


def _roughly(seconds: float) -> str:
    """A length of time for people: ``about 2 h 40 min``."""
    minutes = max(1, -(-int(seconds) // 60))
    minutes = minutes if minutes <= _EXACT else -(-minutes // 10) * 10
    hours, rest = divmod(minutes, 60)
    return "about " + " ".join(filter(None, (f"{hours} h" if hours else "", f"{rest} min" if rest else "")))


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
    groups = sorted(node for node in queue.shares.deserved if not node.user)
    mine = {tenant.group for tenant in tenants if tenant.user == viewer.who.user}
    pods = (_pod(one, viewer) for one in queue.waiting)
    return QueueOfModel(
        model=queue.model,
        gpus=queue.capacity,
        users=tuple(users),
        groups=tuple(_of_group(queue, node, is_mine=node.group in mine) for node in groups),
        pods=(*pods, *(_gathering(one, viewer) for one in queue.gathering)),
    )


def _of_group(queue: ModelQueue, node: Tenant, *, is_mine: bool) -> ShareOfGroup:
    return ShareOfGroup(
        group=node.group,
        holds=int(queue.shares.held.get(node, 0)),
        waits_for=int(queue.shares.wanted.get(node, 0)),
        deserves=round(queue.deserves(node), 2),
        is_mine=is_mine,
    )


def _share(queue: ModelQueue, tenant: Tenant, viewer: Viewer) -> ShareOfUser:
    is_mine = tenant.user == viewer.who.user
    is_shown = is_mine or viewer.may_name_user(tenant.user)
    return ShareOfUser(
        user=tenant.user if is_shown else None,
        group=(tenant.group or None) if is_shown else None,
        holds=int(queue.shares.held.get(tenant, 0)),
        waits_for=int(queue.shares.wanted.get(tenant, 0)),
        deserves=round(queue.deserves(tenant), 2),
        is_mine=is_mine,
    )


def _pod(one: Waiting, viewer: Viewer) -> QueuedPod:
    size = one.gang.size if one.gang else None
    found = _named(one, viewer, position=one.position)
    return msgspec.structs.replace(
        found, turn_due=one.turn_due, taken_at=one.taken_at, gang_size=size, gang_pods=size
    )


def _gathering(one: Gathering, viewer: Viewer) -> QueuedPod:
    found = _named(one, viewer, position=None)
    return msgspec.structs.replace(found, gang_size=one.gang.size, gang_pods=one.there)


def _named(one: Waiting | Gathering, viewer: Viewer, *, position: int | None) -> QueuedPod:
    user, is_shown = viewer.user_of(one.pod), viewer.may_name(one.pod)
    meta = one.pod.metadata
    return QueuedPod(
        position=position,
        namespace=meta.namespace if is_shown else None,
        name=meta.name if is_shown else None,
        user=user if is_shown else None,
        gpus=one.gpus,
        since=one.since,
        is_mine=user is not None and user == viewer.who.user,
    )
