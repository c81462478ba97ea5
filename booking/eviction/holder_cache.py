"""The devices of each model on each node, and their holders: cached between passes, rebuilt where changed.

Nothing here becomes outdated with time: costs are kept as the instants from which they grow. All inputs are
values, so the same snapshot gives the same result, whatever was cached before.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from heapq import heappop, heappush
from operator import is_
from typing import Final

from msgspec.structs import replace

from booking.eviction.free_nodes import FreeNodes
from booking.eviction.holder import Holder
from booking.eviction.loss_ranks import LossRanks
from booking.eviction.settings import EvictionSettings
from booking.eviction.share_floors import NEVER_LATER, ShareBounds, ShareFloor, ShareRooms
from booking.eviction.sharers import SharedDevices, thousandths
from booking.eviction.snapshot import EvictionSnapshot, VictimPolicy
from cluster.cache.recent_changes import RecentChanges
from cluster.decide.eviction.costs import Work, work_of
from cluster.decide.eviction.fates import Fates, Member, member_of
from cluster.decide.ledger import Holding, NodeView
from cluster.decide.ledger.holdings import PodHoldings
from cluster.decide.protection import is_stuck, stuck_from
from cluster.objects.gangs import Gang, gang_of
from cluster.objects.inventory import Device
from cluster.objects.namespaces import Namespace
from cluster.objects.pods import Pod, is_terminating

NONE_SHARED: Final = SharedDevices()


@dataclass(frozen=True, slots=True)
class ModelHolders:
    """The devices of one model on one node: healthy ones that can be planned with."""

    free: tuple[str, ...] = ()
    holders: tuple[Holder, ...] = ()
    idle: int = 0
    """Devices that can be had without an eviction."""
    latest: tuple[int, ...] = ()
    """For each device that an eviction would free, an upper bound of the time at which its holder's work was
    saved: microseconds since 1970, the latest first; ``NEVER_LATER`` if that may be as late as now."""
    shared: SharedDevices = NONE_SHARED
    """Devices that are held in shares; they are in none of the above but ``idle``."""

    @property
    def is_shared(self) -> bool:
        """Whether devices are held in shares."""
        return bool(self.shared.of)

    @property
    def all(self) -> Mapping[str, Holder]:
        """Uid -> holder of devices, or of shares of them."""
        return {**{holder.uid: holder for holder in self.holders}, **self.shared.holders}

    def only(self, uuids: frozenset[str]) -> "ModelHolders":
        """The same for some of the devices only."""
        if uuids.issuperset(self._uuids()):
            return self
        holders = (
            replace(holder, devices=tuple(uuid for uuid in holder.devices if uuid in uuids))
            for holder in self.holders
        )
        free = tuple(uuid for uuid in self.free if uuid in uuids)
        return _filled(free, tuple(holder for holder in holders if holder.devices), self.shared.only(uuids))

    def _uuids(self) -> Iterator[str]:
        yield from self.free
        yield from self.shared.of
        for holder in self.holders:
            yield from holder.devices


@dataclass(slots=True)
class _Moment:
    """The last instant that a cache was asked for."""

    instant: EvictionSnapshot | None = None


@dataclass(frozen=True)
class NodeHolders:
    """The holders on one node, and the values that they are computed from, once somebody asks.

    Those that a cache has replaced must not be asked any more.
    """

    view: NodeView
    moment: _Moment = field(repr=False, compare=False)
    """What else they are computed from: as long as the cache returns this, it makes no difference when."""
    uids: tuple[str, ...] = ()
    pods: tuple[Pod | None, ...] = ()
    booked: frozenset[str] = frozenset()
    until: datetime | None = None
    """When a pod may become evictable, or a terminating pod may count as hanging: the entry is then
    recomputed."""
    members: tuple[Member, ...] = ()
    """Its pods whose controllers may not replace them."""
    gangs: Mapping[str, Gang] = field(default_factory=dict)
    """Uid -> the gang of a pod of it, of those that have one."""
    awaited: frozenset[str] = frozenset()
    """Uids of claims that are reserved for booked pods, which are about to be bound: their devices stay."""
    users: tuple[str, ...] = ()
    """Uids of the pods for which claims are reserved that no bound pod has."""
    living: frozenset[str] = frozenset()
    """Those of ``users`` that exist."""

    @cached_property
    def by_model(self) -> Mapping[str, ModelHolders]:
        """Model -> its devices and holders on this node."""
        instant = self.moment.instant
        if instant is None or self.view.fault:
            return {}
        known = {pod.metadata.uid: pod for pod in self.pods if pod}
        members = {member.uid: member for member in self.members}
        return _by_model(self.view, known, members, instant, awaited=self.awaited)

    @cached_property
    def floors(self) -> dict[str, tuple[ShareFloor, ...]]:
        """Model -> its GPUs that may be shared, as far as they have been asked for (``floors_of``)."""
        return {}

    @property
    def is_read(self) -> bool:
        """Whether somebody has asked for the holders."""
        return "by_model" in self.__dict__


class HolderCache:
    """The holders on all nodes, as they were when last asked for. For one thread."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeHolders] = {}
        self._namespaces: Mapping[str, Namespace] = {}
        self._protected: frozenset[str] = frozenset()
        self._terms: EvictionSettings | None = None
        self._policy: VictimPolicy | None = None
        self._moment = _Moment()
        self._at: tuple[object, int] | None = None
        """The changes that are included (``RecentChanges``); None if that is not known."""
        self._covered: AbstractSet[str] = frozenset()
        self._awaited: Mapping[str, frozenset[str]] = {}
        """Node -> uids of the claims that are reserved for booked pods which are not bound."""
        self._due: list[tuple[datetime, str]] = []
        """When entries are to be recomputed though nothing has changed, the first one first; some are old."""
        self._with_members: dict[str, None] = {}
        """Nodes that have any."""
        self._with_gangs: dict[str, None] = {}
        self._with_users: dict[str, None] = {}
        self.free_nodes: Final = FreeNodes()
        self.loss_ranks: Final = LossRanks()
        self.share_bounds: Final = ShareBounds()
        self.share_rooms: Final = ShareRooms()

    def at(self, instant: EvictionSnapshot) -> Mapping[str, NodeHolders]:
        """Node -> its holders at this instant. Not to be changed."""
        views, awaited = instant.node_snapshots.views, _awaited(instant)
        changed = None if self._is_elsewhere(instant) else self._changed(instant, awaited)
        if changed is None:
            self._due.clear()
            self._with_members.clear()
            self._with_gangs.clear()
            self._with_users.clear()
        before, self._moment.instant = self._nodes, instant
        nodes = dict(before) if changed else {} if changed is None else before
        for name in views if changed is None else changed:
            view, known = views.get(name), before.get(name)
            if view is None:
                nodes.pop(name, None)
                self._with_members.pop(name, None)
                self._with_gangs.pop(name, None)
                self._with_users.pop(name, None)
                continue
            theirs = awaited.get(name, frozenset())
            is_true = known is not None and known.awaited == theirs and _is_true(known, view, instant)
            nodes[name] = now = (
                known if known and is_true else _node_holders(view, instant, self._moment, theirs)
            )
            if now.until and not (is_true and changed):
                heappush(self._due, (now.until, name))
            _list(self._with_members, name, is_in=bool(now.members))
            _list(self._with_gangs, name, is_in=bool(now.gangs))
            _list(self._with_users, name, is_in=bool(now.users))
        self.loss_ranks.changed(changed)
        self.free_nodes.changed(changed)
        self._nodes, self._covered, self._awaited = nodes, frozenset(instant.cover), awaited
        recent = _recent(instant)
        self._at = (recent.line, recent.number) if recent else None
        return self._nodes

    def _changed(self, instant: EvictionSnapshot, awaited: Mapping[str, frozenset[str]]) -> set[str] | None:
        """The nodes that may have other holders than at the last instant; None if all may."""
        recent = _recent(instant)
        found = recent.after(*self._at) if recent and self._at else None
        if found is None:
            return None
        changed = {*found, *(name for name, _ in awaited.items() ^ self._awaited.items()), *self._with_users}
        while self._due and self._due[0][0] <= instant.now:
            changed.add(heappop(self._due)[1])
        for uid in instant.cover.keys() ^ self._covered:
            if (pod := instant.pods.get(uid)) and pod.spec.node_name:
                changed.add(pod.spec.node_name)
        return changed

    def fates(self, instant: EvictionSnapshot) -> Fates:
        """The fates of the pods that ``at`` has returned for the same instant."""
        members = (member for name in self._with_members for member in self._nodes[name].members)
        return Fates(members, instant.jobs)

    def with_gangs(self) -> Mapping[str, NodeHolders]:
        """Those that ``at`` has returned last on which pods of gangs are."""
        return {name: self._nodes[name] for name in self._with_gangs}

    def _is_elsewhere(self, instant: EvictionSnapshot) -> bool:
        """Whether settings, policy or protected namespaces differ from last time: nothing is true then."""
        protected = self._protected
        if instant.namespaces is not self._namespaces:
            protected = frozenset(name for name, one in instant.namespaces.items() if one.is_protected)
        same = (protected, instant.terms, instant.policy) == (self._protected, self._terms, self._policy)
        self._namespaces, self._protected = instant.namespaces, protected
        self._terms, self._policy = instant.terms, instant.policy
        if not same:
            self._nodes = {}
        return not same


def _awaited(instant: EvictionSnapshot) -> Mapping[str, frozenset[str]]:
    """Node -> uids of the claims with devices there that are reserved for booked pods which are not bound."""
    found: dict[str, set[str]] = {}
    for uid in instant.cover:
        claims = pod.claims if (pod := instant.pods.get(uid)) else None
        if claims and claims.reserved:
            for one in claims.held:
                if one.claim in claims.reserved:
                    found.setdefault(one.node, set()).add(one.claim)
    return {node: frozenset(claims) for node, claims in found.items()}


def _list(names: dict[str, None], name: str, *, is_in: bool) -> None:
    if is_in:
        names[name] = None
    else:
        names.pop(name, None)


def _recent(instant: EvictionSnapshot) -> RecentChanges | None:
    """The last changes before an instant; None unless they are those of its own nodes and pods."""
    found = instant.recent
    is_its_own = found and found.views is instant.node_snapshots.views and found.pods is instant.pods
    return found if is_its_own else None


def _is_true(node_holders: NodeHolders, view: NodeView, instant: EvictionSnapshot) -> bool:
    """Whether nothing has changed that this was read from."""
    if node_holders.view is not view or not all(
        map(is_, map(instant.pods.get, node_holders.uids), node_holders.pods)
    ):
        return False
    if node_holders.until is not None and node_holders.until <= instant.now:
        return False
    if node_holders.users and node_holders.living != _living(node_holders.users, instant):
        return False
    if instant.cover.keys().isdisjoint(node_holders.uids):
        return not node_holders.booked
    return _booked(node_holders.uids, instant) == node_holders.booked


def _living(uids: tuple[str, ...], instant: EvictionSnapshot) -> frozenset[str]:
    return frozenset(uid for uid in uids if uid in instant.pods)


def _booked(uids: tuple[str, ...], instant: EvictionSnapshot) -> frozenset[str]:
    return frozenset(uid for uid in uids if uid in instant.cover)


def _node_holders(
    view: NodeView, instant: EvictionSnapshot, moment: _Moment, awaited: frozenset[str]
) -> NodeHolders:
    """The entry of one node.

    Unhealthy devices, and those that two pods claim to hold, are not planned with. Nor are the devices of a
    resource of which a pod of the node has devices that are unknown.
    """
    uids = tuple(holding.uid for holding in view.holdings)
    users = tuple(uid for holding in view.holdings for uid in holding.users or ())
    pods = tuple(map(instant.pods.get, uids))
    members: list[Member] = []
    gangs: dict[str, Gang] = {}
    until: datetime | None = None
    for holding, pod in zip(view.holdings, pods, strict=True):
        if pod is None:
            continue
        if pod.metadata.owner_references and (
            member := member_of(pod, gpus=len(holding.devices), leaves=_leaves(pod, instant))
        ):
            members.append(member)
        if gang := gang_of(pod):
            gangs[holding.uid] = gang
        for end in (instant.policy.protected_until(pod, instant), stuck_from(pod)):
            if end and end > instant.now and (until is None or end < until):
                until = end
    return NodeHolders(
        view=view,
        moment=moment,
        uids=uids,
        pods=pods,
        booked=_booked(uids, instant),
        until=until,
        members=tuple(members),
        gangs=gangs,
        awaited=awaited,
        users=users,
        living=_living(users, instant),
    )


def _leaves(pod: Pod, instant: EvictionSnapshot) -> bool:
    return is_terminating(pod) and not is_stuck(pod, instant.now)


def _by_model(
    view: NodeView,
    pods: Mapping[str, Pod],
    members: Mapping[str, Member],
    instant: EvictionSnapshot,
    *,
    awaited: AbstractSet[str],
) -> dict[str, ModelHolders]:
    of: dict[str, list[PodHoldings]] = {}
    for holding in view.holdings:
        for uuid in holding.devices:
            of.setdefault(uuid, []).append(holding)
    parts = (part for holding in view.holdings for part in holding.devices.values()) if awaited else ()
    stay = {part.device for part in parts if part.claim in awaited}
    return {
        model: _model_holders(
            [device for device in devices if device.uuid not in stay] if stay else devices,
            of,
            pods,
            instant,
            members=members,
            reserved=view.reserved,
        )
        for resource, models in view.healthy_by_model.items()
        if not view.unknown.get(resource)
        for model, devices in models.items()
    }


def _model_holders(
    devices: Sequence[Device],
    of: Mapping[str, list[PodHoldings]],
    pods: Mapping[str, Pod],
    instant: EvictionSnapshot,
    *,
    members: Mapping[str, Member],
    reserved: AbstractSet[str],
) -> ModelHolders:
    uuids = [device.uuid for device in devices]
    free = tuple(uuid for uuid in uuids if uuid not in of and uuid not in reserved)
    held: dict[str, tuple[PodHoldings, list[str]]] = {}
    shared: dict[str, tuple[str, ...]] = {}
    sharers: dict[str, PodHoldings] = {}
    for uuid in uuids:
        holdings = of.get(uuid, ())
        if len(holdings) == 1 and holdings[0].devices[uuid].mode is None:
            held.setdefault(holdings[0].uid, (holdings[0], []))[1].append(uuid)
        elif (holdings or uuid in reserved) and _have_it_together([one.devices[uuid] for one in holdings]):
            shared[uuid] = tuple(one.uid for one in holdings)
            sharers |= {one.uid: one for one in holdings}
    # Who leaves gives up all that it has, what it has alone, too: it is one victim, and counted once.
    for uid in held.keys() & sharers.keys():
        shared |= dict.fromkeys(held.pop(uid)[1], (uid,))
    known = {device.uuid: device for device in devices}

    def holder(holding: PodHoldings, theirs: tuple[str, ...]) -> Holder:
        pod = pods[holding.uid]
        return Holder(
            uid=holding.uid,
            devices=theirs,
            gpus=len(holding.devices),
            work=work_of(pod),
            leaves=_leaves(pod, instant),
            evictable=instant.policy.protection(pod, holding, instant) is None,
            member=members.get(holding.uid),
            thousandths=thousandths(holding.devices.values(), known) if holding.has_shares else 0,
        )

    # Pods that are missing are known only to the node's agent.
    holders = [holder(one, tuple(theirs)) for uid, (one, theirs) in held.items() if uid in pods]
    return _filled(
        free,
        (
            *holders,
            *(_released(one, tuple(theirs)) for one, theirs in held.values() if _is_given_back(one, instant)),
        ),
        SharedDevices(
            shared,
            {uid: holder(one, ()) for uid, one in sharers.items() if uid in pods}
            | {uid: _released(one, ()) for uid, one in sharers.items() if _is_given_back(one, instant)},
        ),
    )


def _is_given_back(holding: PodHoldings, instant: EvictionSnapshot) -> bool:
    """Whether it is of a claim that no pod has any more: Kubernetes takes its devices in a moment."""
    return holding.users is not None and all(uid not in instant.pods for uid in holding.users)


def _released(holding: PodHoldings, devices: tuple[str, ...]) -> Holder:
    """A claim that is about to give back these devices."""
    return Holder(
        uid=holding.uid, devices=devices, gpus=len(devices), work=Work(), leaves=True, evictable=False
    )


def _have_it_together(parts: list[Holding]) -> bool:
    """Whether it is free once all of its holders are gone: they share it, or are pods of one claim."""
    is_of_one_claim = len(parts) > 1 and len({part.claim for part in parts}) == 1 and bool(parts[0].claim)
    return is_of_one_claim or all(part.mode for part in parts)


def _filled(free: tuple[str, ...], holders: tuple[Holder, ...], shared: SharedDevices) -> ModelHolders:
    return ModelHolders(
        free=free,
        holders=holders,
        idle=len(free) + sum(len(holder.devices) for holder in holders if holder.leaves) + shared.idle,
        latest=tuple(sorted(_latest(holders), reverse=True)),
        shared=shared,
    )


def _latest(holders: Iterable[Holder]) -> Iterator[int]:
    for holder in holders:
        if holder.evictable:
            latest = holder.work.latest
            yield from [NEVER_LATER if latest is None else latest] * len(holder.devices)
