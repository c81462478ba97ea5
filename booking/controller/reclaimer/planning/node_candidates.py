"""All nodes during one round of planning: what each could give, minus what the round has assigned."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from booking.controller.reclaimer.planning.running_gangs import RunningGangs
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.eviction.holder import Holder
from booking.eviction.holder_cache import HolderCache, ModelHolders
from booking.eviction.share_floors import Bounds, ShareFloor, floors_of
from booking.eviction.sharers import Freeable, freeable
from cluster.decide.eviction.victim_selection import NodeCandidate, Victim, VictimSelection, select_victims
from cluster.decide.ledger import NodeView
from cluster.decide.request import GpuRequest
from cluster.objects.device_selector import DeviceSelector
from cluster.objects.hold import Hold
from cluster.objects.share_request import Slot

NO_SHARES: Final = Freeable()
ANY: Final = DeviceSelector()
"""Selects every device of a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningInputs:
    """What is known about pods in addition to the objects. Uids."""

    excluded: frozenset[str] = frozenset()
    """Pods that must not be evicted just now."""
    ending: frozenset[str] = frozenset()
    """Pods that are evicted within moments, whether or not their devices are needed."""


class NodeCandidates:
    """The remaining devices of each node."""

    def __init__(
        self, snapshot: ReclaimerSnapshot, inputs: PlanningInputs, holder_cache: HolderCache
    ) -> None:
        self._snapshot = snapshot
        self._inputs = inputs
        self._nodes = holder_cache.at(snapshot)
        self._share_bounds, self._share_rooms = holder_cache.share_bounds, holder_cache.share_rooms
        self._loss_ranks, self._free_nodes = holder_cache.loss_ranks, holder_cache.free_nodes
        self._on_hold = {node: set(devices) for node, devices in snapshot.on_hold.items()}
        self._reserved: dict[str, set[str]] = {}
        """Node -> devices that pods of this round need not have held for them: they are free."""
        self._suiting: dict[tuple[str, str, DeviceSelector], ModelHolders] = {}
        """The holders on selected devices, for pods that request more than a model."""
        self._outgoing_pods = set(snapshot.victims | inputs.ending)
        self._costs = snapshot.policy.costs(snapshot, holder_cache.fates(snapshot), self._outgoing_pods)
        self._versions: dict[str, int] = dict.fromkeys(self._on_hold, 0)
        """Nodes that are not as the holder cache has them, and how often that has changed."""
        self._gangs = RunningGangs(holder_cache.with_gangs(), self._costs)
        for uid in self._outgoing_pods | inputs.excluded:
            self._change_node_of(uid)

    # --- queries -------------------------------------------------------------------------------------
    def version(self, node: str) -> int:
        """A number that changes whenever something of the node is assigned."""
        return self._versions.get(node, 0)

    def raw_free(self, node: str, model: str, selector: DeviceSelector = ANY) -> int:
        """How many devices are neither held nor on hold, even if pods of this round count on them."""
        model_holders = self._model_holders(node, model, selector)
        on_hold = self._on_hold.get(node, ())
        return sum(uuid not in on_hold for uuid in model_holders.free) if on_hold else len(model_holders.free)

    def unassigned(self, node: str, model: str) -> int:
        """How many devices are neither held nor on hold, and no pod of this round counts on them."""
        free, away = self._model_holders(node, model, ANY).free, self._away(node)
        return sum(uuid not in away for uuid in free) if away else len(free)

    def all_devices(self, node: str, model: str, selector: DeviceSelector = ANY) -> int:
        """How many devices the node has that can be planned with, whoever holds them."""
        found = self._model_holders(node, model, selector)
        return len(found.free) + sum(len(holder.devices) for holder in found.holders)

    def nodes_with_free(self, model: str) -> list[str]:
        """Nodes with any free device of a model, the fullest first, then by name."""
        free = self._free_nodes.of(self._nodes, model)
        return sorted(free, key=lambda name: (free[name], name))

    def least_losses(self, model: str, need: int, selector: DeviceSelector = ANY) -> Mapping[str, int]:
        """Node -> lower bound of what a pod there destroys, in GPU-microseconds; only nodes with enough."""
        found: dict[str, int] = {}
        for name, node_holders in self._nodes.items():
            if model not in node_holders.by_model:
                continue
            model_holders = self._model_holders(name, model, selector)
            missing = need - model_holders.idle
            if name in self._versions or missing <= 0 or model_holders.shared.of:
                found[name] = 0  # what shares lose at least is not known without looking at all sharers
            elif missing <= len(model_holders.latest):
                found[name] = self._costs.at_least(model_holders.latest[:missing])
        return found

    def changed(self, model: str) -> list[str]:
        """The nodes with the model of which something is assigned: their bounds do not count any more."""
        nodes = self._nodes
        return [name for name in self._versions if name in nodes and model in nodes[name].by_model]

    def ascending_losses(self, model: str, need: int) -> Iterator[tuple[int, str]]:
        """(lower bound of what a pod there destroys, node), ascending; of ``changed`` ones it is too high.

        Only nodes with enough, for a pod that takes all devices of the model.
        """
        return self._loss_ranks.ascending(self._nodes, model, need, self._costs.at_least_together)

    def candidate(self, node: str, model: str, selector: DeviceSelector = ANY) -> NodeCandidate:
        """What the node has now of a model, as far as the devices will do."""
        model_holders, away = self._model_holders(node, model, selector), self._away(node)
        free = [uuid for uuid in model_holders.free if uuid not in away] if away else model_holders.free
        leaving: list[str] = []
        outgoing_devices: list[str] = []
        victims: list[Victim] = []
        outgoing_pods: set[str] = set()
        for holder in model_holders.holders:
            devices = tuple(u for u in holder.devices if u not in away) if away else holder.devices
            if holder.leaves:
                leaving += devices
            elif holder.uid in self._outgoing_pods:
                outgoing_devices += devices
                outgoing_pods.add(holder.uid)
            elif holder.evictable and devices and holder.uid not in self._inputs.excluded:
                victims.append(self._gangs.whole(self._costs.victim(holder, devices)))
        shared = self._freeable(model_holders, away)
        return NodeCandidate(
            node=node,
            free=tuple(free),
            leaving=(*leaving, *shared.leaving),
            outgoing_devices=(*outgoing_devices, *shared.outgoing),
            victims=(*victims, *map(self._gangs.whole, shared.victims)),
            outgoing_pods=frozenset(outgoing_pods) | shared.outgoing_pods,
        )

    def choice(
        self, node: str, model: str, need: int, selector: DeviceSelector = ANY
    ) -> VictimSelection | None:
        """The best that the node can do for a pod that needs so many of this model, by devices alone."""
        return select_victims(self.candidate(node, model, selector), need)

    def mates(self, uids: Iterable[str]) -> list[str]:
        """Uids of the other pods of these pods' gangs, that leave with them."""
        return self._gangs.mates(frozenset(uids))

    def evictable_on(self, node: str, model: str, devices: Iterable[str]) -> list[str]:
        """Uids of the pods that hold any of these devices and may be evicted."""
        wanted = frozenset(devices)
        holders = self._model_holders(node, model, ANY).holders
        return [one.uid for one in holders if one.evictable and not wanted.isdisjoint(one.devices)]

    def on_node(self, node: str, uids: Iterable[str]) -> frozenset[str]:
        """Those of these pods that are on the node."""
        pods = self._snapshot.pods
        return frozenset(uid for uid in uids if uid in pods and pods[uid].spec.node_name == node)

    # --- for pods with shares ------------------------------------------------------------------------
    def nodes_with_room(self, request: GpuRequest) -> list[str]:
        """Nodes on which a pod with shares, without a hold, may find room; sorted."""
        return self._share_rooms.of(request, self._snapshot.node_snapshots.views)

    def view(self, node: str) -> NodeView | None:
        """The devices of a node, and what pods have of them."""
        found = self._nodes.get(node)
        return found.view if found else None

    def away(self, node: str, *, besides: str = "") -> frozenset[str]:
        """Devices that are kept for pods, or that pods of this round count on; but not those of one pod."""
        hold = self._snapshot.holds.get(besides)
        mine = hold.devices if hold and hold.node == node else ()
        return frozenset(self._away(node)).difference(mine)

    def floors(self, node: str, model: str) -> tuple[ShareFloor, ...]:
        """The GPUs of a model on a node that may be shared, and the pods that have any of them."""
        node_holders = self._nodes.get(node)
        return floors_of(node_holders, model) if node_holders else ()

    def least_share_losses(self, model: str, slot: Slot) -> dict[str, int]:
        """Node -> lower bound of what a share of this size destroys there; only nodes where it may fit."""
        versions, least = self._versions, self._least
        return {
            node: 0 if node in versions else least(bounds)
            for node, bounds in self._share_bounds.of(self._nodes, model, slot)
            if bounds
        }

    def least_share_loss(self, node: str, model: str, slot: Slot) -> int | None:
        """The same of one node, read from its holders; None if the share does not fit there."""
        bounds = self._share_bounds.by_holders(self._nodes[node], model, slot)
        if not bounds:
            return None
        return 0 if node in self._versions else self._least(bounds)

    def _least(self, bounds: Bounds) -> int:
        each = self._costs.at_least_each
        if len(bounds) == 1:
            ((part, latest),) = bounds
            return part and part * each(latest) // 1000
        return min(part and part * each(latest) // 1000 for part, latest in bounds)

    def fate(self, holder: Holder) -> Literal["leaves", "outgoing", "evictable", "stays"]:
        """What becomes of a holder."""
        if holder.leaves:
            return "leaves"
        if holder.uid in self._outgoing_pods:
            return "outgoing"
        may_go = holder.evictable and holder.uid not in self._inputs.excluded
        return "evictable" if may_go else "stays"

    def victim(self, holder: Holder, uuid: str) -> Victim:
        """A holder that may be evicted, as a victim on one device."""
        return self._costs.victim(holder, (uuid,))

    # --- assigning -----------------------------------------------------------------------------------
    def add_hold(self, hold: Hold) -> frozenset[str]:
        """Assign the devices and victims of a new plan; returns the nodes that are different now."""
        self._on_hold.setdefault(hold.node, set()).update(hold.devices)
        self._outgoing_pods.update(hold.victims)
        changed = self._costs.fates.nodes_of(frozenset(hold.victims)) | {hold.node}
        for node in changed:
            self._change(node)
        return changed

    def reserve(self, node: str, devices: Iterable[str]) -> None:
        """A pod will have these without a plan, or waits for them."""
        self._reserved.setdefault(node, set()).update(devices)
        self._change(node)

    def give_back(self, node: str, devices: Iterable[str]) -> None:
        """A pod for which these were reserved will not have them after all."""
        self._reserved[node].difference_update(devices)
        self._change(node)

    # --- inside --------------------------------------------------------------------------------------
    def _model_holders(self, node: str, model: str, selector: DeviceSelector) -> ModelHolders:
        node_holders = self._nodes.get(node)
        model_holders = node_holders.by_model.get(model, _NOTHING) if node_holders else _NOTHING
        if node_holders is None or selector.is_by_model:
            return model_holders
        key = (node, model, selector)
        if key not in self._suiting:
            do = frozenset(device.uuid for device in node_holders.view.devices if selector.takes(device))
            self._suiting[key] = model_holders.only(do)
        return self._suiting[key]

    def _freeable(self, model_holders: ModelHolders, away: set[str]) -> Freeable:
        if not model_holders.shared.of:
            return NO_SHARES
        return freeable(
            model_holders.shared,
            self._costs,
            away=away,
            outgoing=self._outgoing_pods,
            excluded=self._inputs.excluded,
        )

    def _away(self, node: str) -> set[str]:
        on_hold, reserved = self._on_hold.get(node), self._reserved.get(node)
        return on_hold | reserved if on_hold and reserved else on_hold or reserved or set()

    def _change(self, node: str) -> None:
        self._versions[node] = self._versions.get(node, 0) + 1

    def _change_node_of(self, uid: str) -> None:
        pod = self._snapshot.pods.get(uid)
        if pod and pod.spec.node_name:
            self._change(pod.spec.node_name)


_NOTHING = ModelHolders()
