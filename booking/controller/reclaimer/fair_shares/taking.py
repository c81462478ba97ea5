"""What is taken back for a waiting pod: the decisions of fair shares on the nodes of one pass."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import ClassVar

from booking.controller.reclaimer.fair_shares.feasible import need_in
from booking.controller.reclaimer.fair_shares.record import Record, owner_key
from booking.controller.reclaimer.planning.node_candidates import NodeCandidates
from booking.controller.reclaimer.planning.plan import Plan, Round
from booking.controller.reclaimer.planning.waiting_pod import WaitingPod
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.eviction.holder import Holder
from booking.fair_shares.applicants import Applicant
from booking.fair_shares.standing import tenant_of
from booking.policy.fair_shares import FairShares
from cluster import names
from cluster.decide.eviction.costs import microseconds
from cluster.decide.eviction.victim_selection import NodeCandidate, VictimSelection
from cluster.decide.fairshare import Running, Unit
from cluster.decide.fairshare.settings import SECOND, Amount
from cluster.objects.gangs import Gang, gang_of
from cluster.objects.pods import Pod, first_created


@dataclass
class TakingPlaces:
    """The nodes of one model: ``cluster.decide.fairshare.Places``. What is taken becomes a plan."""

    model: str
    snapshot: ReclaimerSnapshot
    one_round: Round
    candidates: NodeCandidates
    applicants: Mapping[str, Applicant]
    plans: dict[str, list[Plan]] = field(default_factory=dict)
    """Uid of a unit -> the plans for its pods."""
    moves: ClassVar[bool] = False
    """No pod is moved to make room."""

    def bounds(self, unit: Unit, gpus: Amount) -> Iterable[tuple[int, str]]:
        """Nodes that suit the pod, with a lower bound of what is lost there."""
        asks, applicant = self._asks(unit), self.applicants[unit.uid]
        found = self.candidates.least_losses(self.model, round(gpus), applicant.request.selector)
        return [(lost, node) for node, lost in found.items() if asks.is_open(node)]

    def candidate(self, node: str, unit: Unit) -> NodeCandidate:
        """What the node has for the pod."""
        found = self.candidates.candidate(node, self.model, self.applicants[unit.uid].request.selector)
        if not unit.members:
            return found
        # What leaves is not there yet, and a gang waits until all of it is.
        return replace(found, leaving=(), outgoing_devices=())

    def nodes_of(self, pods: Iterable[str]) -> AbstractSet[str]:
        """The nodes of these pods."""
        known = self.snapshot.pods
        return {node for uid in pods if (node := known[uid].spec.node_name)}

    def suits(self, unit: Unit, selection: VictimSelection) -> bool:
        """Whether the pod would be placed there with these victims gone; nobody else is waited for."""
        if selection.waits:
            return False
        asks = self._asks(unit, len(selection.devices))
        return asks.verdict(self.candidate(selection.node, unit), selection) == "suits"

    def elsewhere(
        self, _units: Iterable[Running], _without: AbstractSet[str] = frozenset()
    ) -> frozenset[str]:
        """Nobody."""
        return frozenset()

    def settle(self, unit: Unit, selections: tuple[VictimSelection, ...]) -> None:
        """The pod gets these devices; of a gang, the pods, the largest first."""
        applicant, plans = self.applicants[unit.uid], list[Plan]()
        for single, selection in zip(applicant.singles, selections, strict=True):
            # A pod waits for all that are on its devices, though they leave for others of its gang, too.
            there = self.candidates.evictable_on(selection.node, self.model, selection.devices)
            plan = self.one_round.take(single.pod, need_in(single, self.model), selection, also=there)
            plans.append(replace(plan, gang=unit.uid, lifts_gate=False) if unit.members else plan)
        self.plans[unit.uid] = plans

    def _asks(self, unit: Unit, gpus: int = 0) -> WaitingPod:
        applicant = self.applicants[unit.uid].member(gpus)
        return self.one_round.asks(applicant.pod, need_in(applicant, self.model))


def running_in(
    holders: Mapping[str, Holder], snapshot: ReclaimerSnapshot, shares: FairShares, record: Record
) -> dict[str, Running]:
    """Uid -> a pod that may be evicted as far as anything but shares says, as a unit that runs."""
    now = microseconds(snapshot.now)
    found = {
        uid: _running(snapshot.pods[uid], holder, shares, now=now, record=record)
        for uid, holder in holders.items()
    }
    return found | _whole(found, snapshot)


def _whole(singles: Mapping[str, Running], snapshot: ReclaimerSnapshot) -> dict[str, Running]:
    """The same for pods of gangs: each is the whole gang, which is protected as long as any pod of it is."""
    gangs: dict[Gang, list[str]] = {}
    for uid in singles:
        if gang := gang_of(snapshot.pods[uid]):
            gangs.setdefault(gang, []).append(uid)
    found: dict[str, Running] = {}
    for gang, uids in gangs.items():
        them = [singles[uid] for uid in sorted(uids)]
        unit = replace(
            them[0].unit,
            uid=gang.key,
            gpus=sum(one.unit.gpus for one in them),
            members=tuple(one.unit.gpus for one in them),
            created=min(one.unit.created for one in them),
        )
        whole = Running(
            unit=unit,
            since=max(one.since for one in them),
            evictions=max(one.evictions for one in them),
            taken=max((one.taken for one in them), key=len),
            turn_until=max(one.turn_until for one in them),
        )
        found |= dict.fromkeys(uids, whole)
    return found


def turn_until(pod: Pod, since: int) -> int:
    """Until when a pod that started at an instant is in its turn; 0 if it has none."""
    text = pod.metadata.annotation(names.TURN) or ""
    return since + int(text) * SECOND if text.isdecimal() and text.isascii() else 0


def _running(pod: Pod, holder: Holder, shares: FairShares, *, now: int, record: Record) -> Running:
    unit = Unit(
        uid=holder.uid,
        tenant=tenant_of(pod, shares),
        gpus=len(holder.devices),
        created=microseconds(first_created(pod)),
    )
    taken = record.taken.get(owner_key(pod), ())
    return Running(
        unit=unit,
        since=holder.work.since(now),
        turn_until=turn_until(pod, holder.work.since(now)),
        evictions=max(holder.work.evictions, len(taken)),
        taken=tuple(taken),
    )
