"""Which holds are needed: for each booked pod that fits nowhere, the cheapest devices that could be freed.

Pure: a snapshot in, plans out. The pods are served in the order of their creation, in one round: devices,
CPU, places and neighbours that one pod counts on, by a plan or because it fits on free devices, are not
available to the next.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as dataclass_replace
from datetime import datetime
from itertools import islice
from typing import Final

from msgspec.structs import replace

from booking.controller.reclaimer.need import Need
from booking.controller.reclaimer.planning.free_placement import FreePlacement
from booking.controller.reclaimer.planning.node_candidates import NodeCandidates, PlanningInputs
from booking.controller.reclaimer.planning.search import Search
from booking.controller.reclaimer.planning.share_search import ShareSearch
from booking.controller.reclaimer.planning.waiting_pod import WaitingPod, waiting_pod
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.eviction.holder_cache import HolderCache
from cluster import names
from cluster.decide.eviction.victim_selection import VictimSelection, price
from cluster.decide.scheduler_filters import ClusterObjects, checker_for
from cluster.objects.gangs import gang_of
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod, first_created, is_live

NO_INPUTS: Final = PlanningInputs()
MOST_TRIED: Final = 8
"""Pods that are examined closely, in one pass, for a place without their victims."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What must be written for one pod that needs devices."""

    pod: Pod
    """The pod in the state that the plan was made on."""
    hold: Hold
    lost: int
    """What its victims lose, in GPU-microseconds."""
    lifts_gate: bool = False
    """Whether the pod's queue gate is removed by the same write."""
    gang: str = ""
    """The key of the gang whose holds are written one after the other; empty for a single pod."""
    is_steered: bool = False
    """Whether nobody has to leave, but a claim must not get another device: it waits until that is sure."""
    at_once: bool = False
    """Whether none of its devices is free: then nothing has to be awaited before the victims' notices."""


def plan(
    snapshot: ReclaimerSnapshot,
    inputs: PlanningInputs = NO_INPUTS,
    holder_cache: HolderCache | None = None,
    *,
    search: type[Search] = Search,
) -> list[Plan]:
    """The holds that are needed now.

    Args:
        snapshot: this instant, with every hold that exists or was just written.
        inputs: what is known about pods in addition to the objects.
        holder_cache: cached holders of the nodes; affects only the speed.
        search: how the best node is found.

    Devices that are kept for pods whose turn it is count as free where a booked pod cannot be served without
    them: its hold takes them over.
    """
    waiting = waiting_for_bookings(snapshot)
    if not waiting:
        return []
    cache = holder_cache or HolderCache()
    candidates = NodeCandidates(snapshot, inputs, cache)
    one_round = Round(snapshot, candidates, search(candidates))
    found = [made for pod in waiting if (made := one_round.serve(pod))]
    if not snapshot.turns or not one_round.lacks_devices:
        return found
    without = snapshot.without_holds(frozenset(snapshot.turns))
    candidates = NodeCandidates(without, inputs, cache)
    taken_over = frozenset(hold.node for hold in snapshot.turns.values())
    one_round = Round(without, candidates, search(candidates), keeps_free_on=taken_over)
    return [made for pod in waiting if (made := one_round.serve(pod))]


def plan_without_victims(
    snapshot: ReclaimerSnapshot, inputs: PlanningInputs, holder_cache: HolderCache, pods: Iterable[Pod]
) -> Plan | None:
    """Free devices for the first of these pods that no longer needs its victims (law L3).

    Args:
        snapshot: this instant.
        inputs: what is known about pods in addition to the objects.
        holder_cache: cached holders of the nodes.
        pods: pods that wait for devices of others, none of which is terminating.

    All other pods that wait for free devices are served before, so that no pod has to leave for them instead.
    """
    able = _with_enough_free(pods, snapshot, NodeCandidates(snapshot, inputs, holder_cache))
    found = (_without_victims(pod, snapshot, inputs, holder_cache) for pod in islice(able, MOST_TRIED))
    return next(filter(None, found), None)


def plan_with_others(
    snapshot: ReclaimerSnapshot, inputs: PlanningInputs, holder_cache: HolderCache, pods: Iterable[Pod]
) -> Plan | None:
    """Other victims for the first of these pods for which there are any.

    Args:
        snapshot: this instant.
        inputs: what is known about pods in addition to the objects; they exclude the present victims.
        holder_cache: cached holders of the nodes.
        pods: pods with a hold none of whose victims has left.
    """
    for pod in islice(sorted(pods, key=first_in_time), MOST_TRIED):
        one_round = _round_without(pod, snapshot, inputs, holder_cache)
        if made := one_round.serve(_without_hold(pod)):
            return made
    return None


def _with_enough_free(
    pods: Iterable[Pod], snapshot: ReclaimerSnapshot, candidates: NodeCandidates
) -> Iterator[Pod]:
    """The pods for which a node that is open to them has enough free devices: mostly none, and cheap."""
    with_free: dict[str, list[str]] = {}
    for pod in sorted(pods, key=first_in_time):
        hold, model = snapshot.holds[pod.metadata.uid], snapshot.needs[pod.metadata.uid].model
        if hold.memory is not None:  # how much is free does not follow from a count
            yield pod
            continue
        if model not in with_free:
            with_free[model] = candidates.nodes_with_free(model)
        view = snapshot.node_snapshots.views.get(hold.node)
        mine = sum(not view.holders(uuid) for uuid in hold.devices) if view else 0
        need = len(hold.devices)
        enough = [
            node
            for node in with_free[model]
            if candidates.raw_free(node, model) + (mine if node == hold.node else 0) >= need
        ]
        if enough:
            asks = waiting_pod(pod, snapshot, checker_for(pod, snapshot.cluster_objects))
            if any(map(asks.is_open, enough)):
                yield pod


def _without_victims(
    pod: Pod, snapshot: ReclaimerSnapshot, inputs: PlanningInputs, holder_cache: HolderCache
) -> Plan | None:
    """Free devices for one pod, once all others that wait have been served."""
    uid = pod.metadata.uid
    found = _round_without(pod, snapshot, inputs, holder_cache).place_on_free(pod, snapshot.needs[uid])
    if found is None:
        return None
    # It stays a turn, or a booked pod's. A gang is in its turn as a whole; a pod on free devices needs none.
    before = snapshot.holds[uid]
    turn = before.turn if gang_of(pod) else 0
    return dataclass_replace(found, hold=replace(found.hold, need=before.need, turn=turn))


def _round_without(
    pod: Pod, snapshot: ReclaimerSnapshot, inputs: PlanningInputs, holder_cache: HolderCache
) -> "Round":
    """A round without the pod's hold, in which all others that wait have been served."""
    without = snapshot.without_holds(frozenset({pod.metadata.uid}))
    candidates = NodeCandidates(without, inputs, holder_cache)
    one_round = Round(without, candidates, Search(candidates))
    for other in waiting_for_bookings(without):
        one_round.serve(other)
    return one_round


def _without_hold(pod: Pod) -> Pod:
    """The pod as if no devices were held for it."""
    kept = {key: text for key, text in (pod.metadata.annotations or {}).items() if key != names.HOLD}
    return replace(pod, metadata=replace(pod.metadata, annotations=kept))


def first_in_time(pod: Pod) -> tuple[datetime, str]:
    """The order in which booked pods are served."""
    return first_created(pod), pod.metadata.uid


def waiting_for_bookings(snapshot: ReclaimerSnapshot) -> list[Pod]:
    """Booked pods that are not bound, have no hold, and wait for nothing else, in the order of service.

    Of pods that wait for one claim the first one: what the claim gets is for all of them.
    """
    served = _claims_with_a_hold(snapshot)
    found: list[Pod] = []
    for pod in sorted(_waiting_for_bookings(snapshot), key=first_in_time):
        claims = pod.claims.uids if pod.claims else ()
        if served.isdisjoint(claims):
            served.update(claims)
            found.append(pod)
    return found


def _claims_with_a_hold(snapshot: ReclaimerSnapshot) -> set[str]:
    """Uids of the claims of pods for which devices are kept, also of those that this snapshot leaves out."""
    pods = (snapshot.pods.get(uid) for uid in {*snapshot.holds, *snapshot.cover})
    return {
        claim
        for pod in pods
        if pod and pod.claims and not pod.spec.node_name
        if pod.metadata.uid in snapshot.holds or pod.metadata.annotation(names.HOLD)
        for claim in pod.claims.uids
    }


def _waiting_for_bookings(snapshot: ReclaimerSnapshot) -> Iterator[Pod]:
    for uid in snapshot.cover:
        pod = snapshot.pods[uid]
        if pod.spec.node_name or pod.spec.scheduling_gates or not is_live(pod):
            continue
        if pod.claims and pod.claims.node:
            continue  # its claims have what it asks for: it is about to be bound
        # The cache may still show a hold that was just dropped: the pod is planned again after that.
        if uid not in snapshot.holds and not pod.metadata.annotation(names.HOLD):
            yield pod


class Round:
    """One round of planning: pod after pod, each with what those before it have left."""

    def __init__(
        self,
        snapshot: ReclaimerSnapshot,
        candidates: NodeCandidates,
        search: Search,
        *,
        keeps_free_on: frozenset[str] = frozenset(),
    ) -> None:
        """Args: keeps_free_on: nodes on which a booked pod needs a hold for free devices, too."""
        self.lacks_devices = False
        """Whether a pod found no free devices."""
        self._keeps_free_on = keeps_free_on
        self._snapshot = snapshot
        self._candidates = candidates
        self._free_placement = FreePlacement(candidates)
        self._search = search
        self._shares = ShareSearch(candidates)
        self._firm = self._cluster_objects = _with_holds(snapshot)
        """What a pod finds on the nodes: with all pods that have a plan; and also with those that fit on free
        devices."""

    def serve(self, pod: Pod) -> Plan | None:
        """The plan for a pod, None if it needs none or none would help."""
        asks = waiting_pod(pod, self._snapshot, checker_for(pod, self._cluster_objects))
        if asks.request.share:
            return self._serve_shares(asks)
        firm = asks.checker if self._firm is self._cluster_objects else checker_for(pod, self._firm)
        verdict, node, devices = self._free_placement.take(asks, firm)
        if node is not None:
            self._cluster_objects = self._cluster_objects.placing(pod, node)
            self._search.changed(node)
        if node in self._keeps_free_on:
            return self._on_free(asks, node, devices)
        if verdict != "full":
            return None
        self.lacks_devices = True
        choice = self._search.best(asks)
        if choice is None:
            return None
        if choice.waits:
            self._wait(asks, choice)
            return None
        return self._keep(asks, choice)

    def _serve_shares(self, asks: WaitingPod) -> Plan | None:
        """The plan for a pod with shares, None if it needs none or none would help."""
        if found := self._shares.free(asks):
            node, shared = found
            self._shares.take(node, shared)
            self._cluster_objects = self._cluster_objects.placing(asks.pod, node)
            self._search.changed(node)
            # Of a claim kube-scheduler would choose another device as well.
            is_steered = asks.request.is_confined and asks.request.is_by_claims
            is_kept = is_steered or node in self._keeps_free_on
            made = self._on_free(asks, node, shared.uuids) if is_kept else None
            return dataclass_replace(made, is_steered=is_steered) if made else None
        self.lacks_devices = True
        choice = self._shares.best(asks)
        if choice is None or choice.waits:
            return None
        return self._keep(asks, choice)

    def place_on_free(self, pod: Pod, need: Need) -> Plan | None:
        """Free devices kept for a pod that has been planned for before; None where there are too few."""
        asks = waiting_pod(pod, self._snapshot, checker_for(pod, self._cluster_objects), need)
        if asks.request.share:
            free = self._shares.free(asks)
            return self._on_free(asks, free[0], free[1].uuids) if free else None
        found = self._free_placement.place(asks, is_on_hold=True)
        if found is None:
            return None
        return self._on_free(asks, *found)

    def take(self, pod: Pod, need: Need, choice: VictimSelection, *, also: Iterable[str] = ()) -> Plan:
        """Devices of others for a pod whose turn it is. They are assigned.

        ``also``: uids of pods that leave for it, too; what they lose counts elsewhere.
        """
        return self._keep(self.asks(pod, need), choice, in_turn=True, also=also)

    def asks(self, pod: Pod, need: Need) -> WaitingPod:
        """The requirements of a pod, with what this round has assigned so far."""
        return waiting_pod(pod, self._snapshot, checker_for(pod, self._cluster_objects), need)

    def may_have_free(self, model: str, gpus: int) -> bool:
        """Whether some node may have so many free devices of a model: False only if none has."""
        return self._free_placement.may_have(model, gpus)

    def start(self, pod: Pod, need: Need) -> Plan | None:
        """Free devices for a pod whose turn it is; None where there are too few. They are assigned."""
        asks = self.asks(pod, need)
        found = self._free_placement.place(asks, is_on_hold=True)
        if found is None:
            return None
        node, devices = found
        self._candidates.reserve(node, devices)
        self._cluster_objects = self._cluster_objects.placing(pod, node)
        made = self._on_free(asks, node, devices)
        return Plan(pod=pod, hold=replace(made.hold, need="share"), lost=0, lifts_gate=True)

    def start_all(self, needs: Sequence[tuple[Pod, Need]], key: str) -> list[Plan] | None:
        """Free devices for all pods of a gang; None where there are too few, and then nothing is assigned."""
        before, made = self._cluster_objects, list[Plan]()
        for pod, need in needs:
            found = self.start(pod, need)
            if found is None:
                for one in made:
                    self._candidates.give_back(one.hold.node, one.hold.devices)
                self._cluster_objects = before
                return None
            made.append(dataclass_replace(found, gang=key, lifts_gate=False))
        return made

    def _on_free(self, asks: WaitingPod, node: str, devices: Iterable[str]) -> Plan:
        theirs = tuple(sorted(devices) if asks.request.share else devices)
        hold = Hold(
            node=node,
            devices=theirs,
            memory=self._memory(asks, node, theirs),
            at=self._snapshot.now,
            state=self._snapshot.state_for(asks.pod),
        )
        return Plan(pod=asks.pod, hold=hold, lost=0)

    def _memory(self, asks: WaitingPod, node: str, devices: Iterable[str]) -> int | None:
        """MiB of each of the devices that are kept for a pod with shares, at most."""
        view, share, theirs = self._candidates.view(node), asks.request.share, frozenset(devices)
        if share is None or view is None:
            return None
        known = [device for device in view.devices if device.uuid in theirs]
        return max(share.most_on(device, len(known)) for device in known)

    def _wait(self, asks: WaitingPod, choice: VictimSelection) -> None:
        """Reserve a choice whose victims are leaving anyway: until then no other pod counts on their devices.

        Devices that are free meanwhile stay free: a pod that fits there is bound.
        """
        free = self._candidates.candidate(choice.node, asks.model, asks.selector).free
        self._candidates.reserve(choice.node, set(choice.devices) - set(free))
        self._search.changed(choice.node)

    def _keep(
        self,
        asks: WaitingPod,
        choice: VictimSelection,
        *,
        in_turn: bool = False,
        also: Iterable[str] = (),
    ) -> Plan:
        chosen = [*(victim.uid for victim in choice.victims), *also]
        victims = tuple(dict.fromkeys((*chosen, *self._candidates.mates(chosen))))
        hold = Hold(
            node=choice.node,
            devices=choice.devices,
            victims=victims,
            memory=self._memory(asks, choice.node, choice.devices),
            need="share" if in_turn else "booking",
            at=self._snapshot.now,
            state=self._snapshot.state_for(asks.pod),
        )
        free = self._candidates.candidate(choice.node, asks.model, asks.selector).free
        # Of a shared device something is free, and a bind may be on its way to it.
        at_once = not set(choice.devices) & set(free) and not asks.request.share
        for node in self._candidates.add_hold(hold):
            self._search.changed(node)
        gone = self._candidates.on_node(choice.node, victims)
        is_same = self._firm is self._cluster_objects
        self._cluster_objects = self._cluster_objects.placing(asks.pod, choice.node, without=gone)
        self._firm = (
            self._cluster_objects if is_same else self._firm.placing(asks.pod, choice.node, without=gone)
        )
        lost = price(choice.victims)[0]
        return Plan(pod=asks.pod, hold=hold, lost=lost, lifts_gate=in_turn, at_once=at_once)


def _with_holds(snapshot: ReclaimerSnapshot) -> ClusterObjects:
    """The cluster as it will be when every hold has led to a bind."""
    cluster_objects = snapshot.cluster_objects
    for uid, hold in sorted(snapshot.holds.items()):
        pod = snapshot.pods.get(uid)
        if pod is not None:
            there = frozenset(other.uid for other in cluster_objects.pods_on(hold.node).others)
            cluster_objects = cluster_objects.placing(
                pod, hold.node, without=there.intersection(hold.victims)
            )
    return cluster_objects
