"""Whom kube-scheduler may evict on a node for a pod with GPUs: its offer, or a better one, or nobody. Pure.

kube-scheduler's preemption counts devices and looks at priorities; it knows no models, no bookings, no holds.
An offer stays as it is when the pod would get its devices once these pods are gone, and none of them is
protected. Otherwise others of lower priority take the place of those who are protected or of no use: the
cheapest who have enough devices that the pod accepts. They must also ask for as much of everything else
(processors, memory) as those in whose place they go: kube-scheduler has found that so much suffices, and
nobody here knows whether less would.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from cluster.decide.available import available, largest_set
from cluster.decide.eviction.costs import SECOND, microseconds, work_of
from cluster.decide.eviction.victim_selection import Victim, cheapest, price
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.liveness import AgentState
from cluster.decide.ledger.view import view_of
from cluster.decide.predicates import rejection
from cluster.decide.protection import is_stuck
from cluster.decide.request import GpuRequest
from cluster.decide.scheduler_filters.resource_amounts import requests
from cluster.objects.pods import Pod, is_terminating


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionNode:
    """One node that is offered."""

    view: NodeView
    agent: AgentState
    pods: Mapping[str, Pod]
    """Uid -> living pod that asks for GPUs, terminating ones too: at least those of the node."""
    protected: frozenset[str]
    """Uids of those of them that nobody may evict."""
    now: datetime
    restart_seconds: float = 0
    """What starting again costs each GPU of a victim."""


@dataclass(slots=True)
class _Node:
    """A node while somebody thinks about it."""

    request: GpuRequest
    ground: PreemptionNode
    leaving: frozenset[str]
    """They will be gone, whatever is decided here."""
    _spare: dict[frozenset[str], int] = field(default_factory=dict)

    def without(self, gone: Iterable[str]) -> NodeView:
        """The node once these pods, and those who leave anyway, are gone."""
        view, away = self.ground.view, self.leaving.union(gone)
        return view_of(
            view.name,
            devices=view.devices if view.published else None,
            fault=view.fault,
            holdings=tuple(holding for holding in view.holdings if holding.uid not in away),
            kept=view.kept,
            is_cordoned=view.is_cordoned,
            nominated=view.nominated,
        )

    def fits(self, gone: Iterable[str]) -> bool:
        """Whether the pod would get its devices then."""
        return rejection(self.request, self.without(gone), self.ground.agent) is None

    def spare(self, gone: frozenset[str]) -> int:
        """How many devices the pod could be given then."""
        if gone not in self._spare:
            view = self.without(gone)
            self._spare[gone] = sum(
                largest_set(available(self.request, view, resource), self.request)
                for resource in self.request.demand
            )
        return self._spare[gone]


def victims_of(
    request: GpuRequest, priority: int, ground: PreemptionNode, proposed: Sequence[str]
) -> tuple[str, ...] | None:
    """Uids of those who have to go; None where the node is of no help.

    Args:
        request: of the pod that preempts.
        priority: its own; it displaces nobody of the same or of a higher one.
        ground: the node.
        proposed: kube-scheduler's victims there, the most important first.
    """
    leaving = frozenset(
        uid for uid, pod in ground.pods.items() if is_terminating(pod) and not is_stuck(pod, ground.now)
    )
    node = _Node(request, ground, leaving)
    if (ground.protected - leaving).isdisjoint(proposed) and node.fits(proposed):
        return tuple(proposed)
    # Of pods without GPUs nothing is known here. Who leaves already may be told so again.
    stay = [uid for uid in proposed if uid not in ground.pods or uid in leaving]
    others = [ground.pods[uid] for uid in proposed if uid in ground.pods and uid not in leaving]
    chosen = _chosen(node, _victims(node, priority), _sum(others))
    return None if chosen is None else _ordered((*stay, *chosen), proposed, ground.pods) or None


def _victims(node: _Node, priority: int) -> list[Victim]:
    """Everybody on the node who may be evicted for a pod of this priority."""
    found = []
    ground, nobody = node.ground, node.spare(frozenset())
    now, restart = microseconds(ground.now), round(ground.restart_seconds * SECOND)
    for holding in ground.view.holdings:
        pod = ground.pods.get(holding.uid)
        if pod is None or holding.uid in ground.protected or holding.uid in node.leaving:
            continue
        if (pod.spec.priority or 0) >= priority:
            continue
        work = work_of(pod)
        gained = node.spare(frozenset({holding.uid})) - nobody
        found.append(
            Victim(
                uid=holding.uid,
                devices=tuple(holding.devices)[: max(0, gained)],
                cost=work.lost(len(holding.devices), now, restart),
                since=work.since(now),
                evictions=work.evictions,
            )
        )
    return found


def _chosen(node: _Node, victims: Sequence[Victim], amounts: Mapping[str, int]) -> tuple[str, ...] | None:
    """The cheapest by devices alone; where that leaves too little else, a set that has nobody to spare."""

    def suffice(uids: Sequence[str]) -> bool:
        there = _sum(node.ground.pods[uid] for uid in uids)
        return all(there.get(name, 0) >= amount for name, amount in amounts.items()) and node.fits(uids)

    missing = sum(node.request.demand.values()) - node.spare(frozenset())
    by_devices = cheapest(tuple(victims), max(0, missing))
    if by_devices is not None and suffice([victim.uid for victim in by_devices]):
        return tuple(victim.uid for victim in by_devices)
    chosen = [victim.uid for victim in sorted(victims, key=lambda one: price((one,)))]
    if not suffice(chosen):
        return None
    for uid in reversed(tuple(chosen)):
        fewer = [other for other in chosen if other != uid]
        if suffice(fewer):
            chosen = fewer
    return tuple(chosen)


def _sum(pods: Iterable[Pod]) -> dict[str, int]:
    """What pods ask for together, GPUs aside."""
    total: dict[str, int] = {}
    for pod in pods:
        for name, amount in requests(pod):
            total[name] = total.get(name, 0) + amount
    return total


def _ordered(uids: Iterable[str], proposed: Sequence[str], pods: Mapping[str, Pod]) -> tuple[str, ...]:
    """The most important first, as kube-scheduler reads it; of pods without GPUs its own order tells."""
    importance: dict[str, float] = {}
    last = float("inf")
    for uid in proposed:
        if uid in pods:
            last = pods[uid].spec.priority or 0
        importance[uid] = last
    for uid in uids:
        importance.setdefault(uid, pods[uid].spec.priority or 0 if uid in pods else 0)
    return tuple(sorted(uids, key=lambda uid: (-importance[uid], uid)))
