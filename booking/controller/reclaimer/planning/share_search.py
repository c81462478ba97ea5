"""The best place for a booked pod with shares: room that nobody has, else the cheapest that can be made.

Exact for a share of one GPU: on each GPU the cheapest of all sets of pods after whose eviction the share
fits, whether they share it or one has it whole, and of all GPUs the cheapest. A pod with shares of several
GPUs gets a set none of which could be left, which is the cheapest in most cases.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

from booking.controller.reclaimer.planning.node_candidates import NodeCandidates
from booking.controller.reclaimer.planning.waiting_pod import WaitingPod
from booking.eviction.share_floors import ShareFloor
from cluster.decide.available import shares_on
from cluster.decide.eviction.sharer_selection import Sharer, cheapest_sharers
from cluster.decide.eviction.victim_selection import (
    NO_VICTIMS,
    NodeCandidate,
    Price,
    Victim,
    VictimSelection,
    price,
)
from cluster.decide.ledger import Holding, NodeView
from cluster.decide.ledger.amounts import DeviceUse
from cluster.decide.request import GpuRequest
from cluster.decide.shares import MODES, Shared, place, rooms
from cluster.objects.inventory import Device
from cluster.objects.share_request import Slot


@dataclass(frozen=True, slots=True)
class _Floor:
    """What pods have of one GPU in this round."""

    device: Device
    stays: DeviceUse
    """What those have of it that may not be evicted, or that this round expects."""
    is_busy: bool
    """Whether somebody has any of it who is to go, or may be evicted."""
    waits: bool
    """Whether somebody there will be evicted for another reason."""
    sharers: tuple[Sharer, ...]
    """Those who may be evicted."""


class ShareSearch:
    """The nodes during one round of planning, as pods with shares see them."""

    def __init__(self, candidates: NodeCandidates) -> None:
        self._candidates = candidates
        self._taken: dict[str, list[Holding]] = {}
        """Node -> shares of pods that this round expects there."""

    def free(self, asking: WaitingPod) -> tuple[str, Shared] | None:
        """A node on which the pod would be placed now, and its shares there; its hold does not count."""
        request = replace(asking.request, hold=None)
        for node in self._candidates.nodes_with_room(request):
            view = self._view(node, request)
            if view is None:
                continue
            if asking.is_open(node) and asking.checker.why_not(asking.snapshot.nodes[node]) is None:
                away = self._candidates.away(node, besides=request.uid)
                found = {
                    model: tuple(one for one in some if one[0].uuid not in away)
                    for model, some in rooms(request, view).items()
                }
                if shared := place(request, found):
                    return node, shared
        return None

    def take(self, node: str, shared: Shared) -> None:
        """A pod of this round is expected to have these shares."""
        self._taken.setdefault(node, []).extend(shared.holdings)
        self._candidates.reserve(node, [device.uuid for device in shared.opened])

    def best(self, asking: WaitingPod) -> VictimSelection | None:
        """The cheapest choice for a pod that fits nowhere; None if no eviction would help."""
        slot = _largest_slot(asking.request)
        losses = self._candidates.least_share_losses(asking.model, slot)
        queue = [(lost, node) for node, lost in losses.items()]
        heapify(queue)
        best: VictimSelection | None = None
        while queue and (best is None or queue[0][0] <= best.rank[0][0]):
            lost, node = heappop(queue)
            if not asking.is_open(node):
                continue
            least = self._candidates.least_share_loss(node, asking.model, slot)
            if least is not None and least > lost:
                heappush(queue, (least, node))
            elif least is not None and (view := self._view(node, asking.request)):
                for choice in self._on(asking, view, best):
                    is_better = best is None or choice.rank < best.rank
                    if is_better and asking.verdict(NodeCandidate(node), choice) == "suits":
                        best = choice
        return best

    # --- one node ------------------------------------------------------------------------------------
    def _view(self, node: str, request: GpuRequest) -> NodeView | None:
        """The node as the round leaves it; None where no room is known."""
        view = self._candidates.view(node)
        if view is None or view.fault or not shares_on(request, view) or view.unknown:
            return None
        taken = self._taken.get(node)
        return view.holding(taken) if taken else view

    def _on(
        self, asking: WaitingPod, view: NodeView, best: VictimSelection | None
    ) -> Iterator[VictimSelection]:
        floors = list(self._floors(asking, view))
        share = asking.request.share
        if share is None:
            return
        modes = MODES if share.mode is None else (share.mode,)
        if asking.need > 1:
            yield from self._of_several(asking, view, floors)
            return
        slot = _largest_slot(asking.request)
        for floor in floors:
            for mode in modes:
                part = Holding(floor.device.uuid, slot.memory_on(floor.device), slot.cores, mode)
                limit = best.rank[0] if best else None
                if limit is not None and not _may_undercut(floor, part, limit):
                    continue
                victims = cheapest_sharers(floor.device, floor.stays, floor.sharers, part)
                if victims is not None:
                    yield self._choice(view.name, (floor,), victims)

    def _of_several(
        self, asking: WaitingPod, view: NodeView, floors: list[_Floor]
    ) -> Iterator[VictimSelection]:
        """Everybody leaves, then each stays who can, those that lose the most first."""
        everyone = {one.victim.uid: one.victim for floor in floors for one in floor.sharers}
        gone = dict(everyone)
        if self._place(asking.request, floors, gone) is None:
            return
        for victim in sorted(everyone.values(), key=lambda one: price((one,)), reverse=True):
            rest = {uid: one for uid, one in gone.items() if uid != victim.uid}
            if self._place(asking.request, floors, rest) is not None:
                gone = rest
        shared = self._place(asking.request, floors, gone)
        if shared is not None:
            theirs = tuple(floor for floor in floors if floor.device.uuid in shared.uuids)
            yield self._choice(view.name, theirs, tuple(gone.values()))

    @staticmethod
    def _place(request: GpuRequest, floors: list[_Floor], gone: dict[str, Victim]) -> Shared | None:
        found = []
        for floor in floors:
            use = floor.stays
            for one in floor.sharers:
                use = use if one.victim.uid in gone else use.plus(one.part)
            found.append((floor.device, use.room_on(floor.device)))
        return place(request, {found[0][0].model: tuple(found)}) if found else None

    def _floors(self, asking: WaitingPod, view: NodeView) -> Iterator[_Floor]:
        """The GPUs of which the pod may have shares, whoever has them now."""
        request, away = asking.request, self._candidates.away(view.name, besides=asking.request.uid)
        for known in self._candidates.floors(view.name, asking.model):
            uuid = known.device.uuid
            if uuid not in away and request.selector.takes(known.device) and request.may_share(uuid):
                yield self._floor(view.name, known)

    def _floor(self, node: str, known: ShareFloor) -> _Floor:
        stays, waits, uuid = known.stays, False, known.device.uuid
        sharers: list[Sharer] = []
        for part in self._taken.get(node, ()):
            stays = stays.plus(part) if part.device == uuid else stays
        for holder, part in known.parts:
            theirs = (holder, *known.mates.get(holder.uid, ()))
            fates = {one.uid: self._candidates.fate(one) for one in theirs}
            waits = waits or "outgoing" in fates.values()
            go = [self._candidates.victim(one, uuid) for one in theirs if fates[one.uid] == "evictable"]
            if "stays" in fates.values():
                stays = stays.plus(part)
            elif go:
                sharers.append(Sharer(replace(go[0], sharers=tuple(go[1:])), part))
        return _Floor(known.device, stays, bool(known.parts), waits, tuple(sharers))

    @staticmethod
    def _choice(node: str, floors: Iterable[_Floor], victims: tuple[Victim, ...]) -> VictimSelection:
        theirs = tuple(floors)
        everyone = (one for victim in victims for one in victim.all)
        ordered = tuple(sorted(everyone, key=lambda victim: victim.uid))
        waits = any(floor.waits for floor in theirs)
        cost: Price = price(ordered) if ordered else NO_VICTIMS
        busy = sum(floor.is_busy for floor in theirs)
        devices = tuple(sorted(floor.device.uuid for floor in theirs))
        return VictimSelection(
            node=node,
            devices=devices,
            victims=ordered,
            waits=waits,
            busy=busy,
            rank=(cost, waits, busy, node),
        )


def _largest_slot(request: GpuRequest) -> Slot:
    """The one slot of a pod, or a slot as large as the largest of them."""
    return Slot(tuple(need.amount for need in request.share.needs) if request.share else ())


def _may_undercut(floor: _Floor, part: Holding, limit: Price) -> bool:
    """Whether a choice on this GPU may be cheaper: it evicts the cheapest pod there at least, or nobody."""
    use = floor.stays
    for one in floor.sharers:
        use = use.plus(one.part)
    if use.room_on(floor.device).fits(part) or not floor.sharers:
        return True
    return min(price((one.victim,)) for one in floor.sharers) <= limit
