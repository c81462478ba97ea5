"""Which pods kube-scheduler may evict on a node for a pod with GPUs: its victims, better ones, or none. Pure.

kube-scheduler's preemption counts devices and compares priorities; it knows no models, bookings or holds.
Its victims are accepted if none of them is protected and the pod would get its devices once they are gone.
Otherwise protected and useless victims are replaced by others of lower priority: the cheapest with enough
devices that the pod accepts. The new victims must also request as much of everything else (CPU, memory) as
those that they replace: kube-scheduler has found that this much suffices, and whether less would is not known
here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from cluster.decide.available import available, largest_set
from cluster.decide.eviction.costs import SECOND, microseconds, work_of
from cluster.decide.eviction.victim_selection import Victim, cheapest, price
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.liveness import AgentState
from cluster.decide.predicates import rejection
from cluster.decide.protection import is_stuck
from cluster.decide.request import GpuRequest
from cluster.decide.scheduler_filters.resource_amounts import requests
from cluster.objects.pods import Pod, is_terminating


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionNode:
    """One node that kube-scheduler proposes."""

    view: NodeView
    agent: AgentState
    pods: Mapping[str, Pod]
    """Uid -> living pod that requests GPUs, terminating or not: at least those of the node."""
    protected: frozenset[str]
    """Uids of the pods that may not be evicted."""
    now: datetime
    restart_seconds: float = 0
    """The cost of a restart for each GPU of a victim."""


@dataclass(slots=True)
class _Node:
    """A node while its victims are chosen."""

    request: GpuRequest
    node_state: PreemptionNode
    leaving: frozenset[str]
    """Uids of pods that will be gone, whatever is decided here."""
    _spare: dict[frozenset[str], int] = field(default_factory=dict)

    def without(self, gone: Iterable[str]) -> NodeView:
        """The node once these pods, and those that leave anyway, are gone."""
        return self.node_state.view.without_pods(self.leaving.union(gone))

    def fits(self, gone: Iterable[str]) -> bool:
        """Whether the pod would get its devices once these pods are gone."""
        return rejection(self.request, self.without(gone), self.node_state.agent) is None

    def spare(self, gone: frozenset[str]) -> int:
        """The number of devices that the pod could be given once these pods are gone."""
        if gone not in self._spare:
            view = self.without(gone)
            self._spare[gone] = sum(
                largest_set(available(self.request, view, resource), self.request)
                for resource in self.request.demand
            )
        return self._spare[gone]


def victims_of(
    request: GpuRequest, priority: int, node_state: PreemptionNode, proposed: Sequence[str]
) -> tuple[str, ...] | None:
    """Uids of the pods to evict; None if evictions on the node do not help.

    Args:
        request: the request of the preempting pod.
        priority: its priority; pods of the same or a higher one are not evicted.
        node_state: the node.
        proposed: kube-scheduler's victims there, the most important first.
    """
    leaving = frozenset(
        uid
        for uid, pod in node_state.pods.items()
        if is_terminating(pod) and not is_stuck(pod, node_state.now)
    )
    node = _Node(request, node_state, leaving)
    if (node_state.protected - leaving).isdisjoint(proposed) and node.fits(proposed):
        return tuple(proposed)
    # Pods without GPUs are unknown here. Pods that are terminating already may be evicted again.
    stay = [uid for uid in proposed if uid not in node_state.pods or uid in leaving]
    others = [node_state.pods[uid] for uid in proposed if uid in node_state.pods and uid not in leaving]
    chosen = _chosen(node, _victims(node, priority), _sum(others))
    return None if chosen is None else _ordered((*stay, *chosen), proposed, node_state.pods) or None


def _victims(node: _Node, priority: int) -> list[Victim]:
    """All pods on the node that may be evicted for a pod of this priority."""
    found = []
    node_state, spare = node.node_state, node.spare(frozenset())
    now, restart = microseconds(node_state.now), round(node_state.restart_seconds * SECOND)
    for holding in node_state.view.holdings:
        pod = node_state.pods.get(holding.uid)
        if pod is None or holding.uid in node_state.protected or holding.uid in node.leaving:
            continue
        if (pod.spec.priority or 0) >= priority:
            continue
        work = work_of(pod)
        gained = node.spare(frozenset({holding.uid})) - spare
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
    """The cheapest set by devices alone; if that frees too little else, one without a needless victim."""

    def suffice(uids: Sequence[str]) -> bool:
        there = _sum(node.node_state.pods[uid] for uid in uids)
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
    """The sum of what pods request, GPUs aside."""
    total: dict[str, int] = {}
    for pod in pods:
        for name, amount in requests(pod):
            total[name] = total.get(name, 0) + amount
    return total


def _ordered(uids: Iterable[str], proposed: Sequence[str], pods: Mapping[str, Pod]) -> tuple[str, ...]:
    """The most important first, as kube-scheduler reads it; pods without GPUs keep its own order."""
    importance: dict[str, float] = {}
    last = float("inf")
    for uid in proposed:
        if uid in pods:
            last = pods[uid].spec.priority or 0
        importance[uid] = last
    for uid in uids:
        importance.setdefault(uid, pods[uid].spec.priority or 0 if uid in pods else 0)
    return tuple(sorted(uids, key=lambda uid: (-importance[uid], uid)))
