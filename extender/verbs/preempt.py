"""The verb ``preempt``: kube-scheduler proposes victims for a pod of a higher priority class.

Called only for pods with GPUs whose class preempts. Neither of our own classes does, so these are pods that
admission has not seen, or that belong to an administrator. Nodes on which evictions do not help are left out;
kube-scheduler chooses among the rest, and evicts. A preempting pod without GPUs never reaches us.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime

import structlog

from cluster.decide.ledger import Ledger, NodeView
from cluster.decide.ledger.holdings import PodHoldings
from cluster.decide.ledger.liveness import AgentState
from cluster.decide.preemption import PreemptionNode, victims_of
from cluster.decide.protection import granted_until, lasting_protection, present_protection
from cluster.decide.request import GpuRequest
from cluster.objects.pods import Pod
from cluster.process.clock import Clock
from extender.state.cluster_state import ClusterState
from extender.wire import ExtenderPreemptionArgs, ExtenderPreemptionResult, MetaPod, MetaVictims

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The administrators' decisions about evictions, as the controller has them."""

    home: str
    """The product's own namespace: none of its pods is evicted."""
    maia: bool = False
    """Whether a time granted by MAIA's webhook protects a pod."""
    restart_seconds: float = 0
    """The cost of a restart for each GPU of a victim."""


class Preempt:
    """Answers ``preempt``; the decision is ``cluster.decide.preemption``."""

    def __init__(self, state: ClusterState, clock: Clock, terms: Terms) -> None:
        self._state = state
        self._clock = clock
        self._terms = terms

    def __call__(self, arguments: ExtenderPreemptionArgs) -> ExtenderPreemptionResult:
        """The nodes where preemption helps, each with its victims.

        Raises:
            QuantityError: an amount of GPUs cannot be read.
        """
        offered = arguments.node_name_to_meta_victims or {}
        pod = self._state.with_claims(arguments.pod)
        request = self._state.request(pod)
        plan_rejection = self._state.plan_rejection(pod, request)
        answer: dict[str, MetaVictims] = {}
        for node, node_state in self._node_states(offered).items():
            victims = None if plan_rejection(node) else _victims(request, pod, node_state, offered[node])
            if victims:
                answer[node] = victims
        log.info(
            "preempt answered",
            pod=pod.key,
            uid=pod.metadata.uid,
            nodes=len(offered),
            fitting=len(answer),
            changed=sum(answer[node] != offered[node] for node in answer),
        )
        return ExtenderPreemptionResult(node_name_to_meta_victims=answer)

    def _node_states(self, offered: Mapping[str, MetaVictims]) -> dict[str, PreemptionNode]:
        """The offered nodes at one instant, without those with a victim that we have not seen there."""
        now = self._clock.now()
        with self._state.locked() as ledger:
            booked = self._state.cover(now).keys()
            seen = [name for name, offer in offered.items() if self._is_known(offer, name, ledger)]
            return {
                view.name: self._node_state(view, agent, booked, now)
                for view, agent in self._state.snapshot(seen)
            }

    def _is_known(self, offer: MetaVictims, node: str, ledger: Ledger) -> bool:
        """Whether we know every victim, and know that those with GPUs are on the node."""
        ours = self._state.pods.keys() & offer.uids
        holdings = (ledger.holding(uid) for uid in ours)
        return all(map(ledger.knows, offer.uids)) and all(
            holding is not None and holding.node == node for holding in holdings
        )

    def _node_state(
        self, view: NodeView, agent: AgentState, booked: AbstractSet[str], now: datetime
    ) -> PreemptionNode:
        every = self._state.pods
        pods = {holding.uid: every[holding.uid] for holding in view.holdings if holding.uid in every}
        return PreemptionNode(
            view=view,
            agent=agent,
            pods=pods,
            protected=frozenset(
                holding.uid
                for holding in view.holdings
                if holding.uid in pods and self._protection(pods[holding.uid], holding, booked, now)
            ),
            now=now,
            restart_seconds=self._terms.restart_seconds,
        )

    def _protection(
        self, pod: Pod, holding: PodHoldings, booked: AbstractSet[str], now: datetime
    ) -> str | None:
        granted = granted_until(pod, maia=self._terms.maia)
        is_booked = pod.metadata.uid in booked
        return present_protection(pod, is_booked=is_booked, granted=granted, now=now) or lasting_protection(
            pod, holding, namespaces=self._state.namespaces, home=self._terms.home
        )


def _victims(
    request: GpuRequest, pod: Pod, node_state: PreemptionNode, offer: MetaVictims
) -> MetaVictims | None:
    uids = victims_of(request, pod.spec.priority or 0, node_state, offer.uids)
    if uids is None or uids == offer.uids:
        return None if uids is None else offer
    # The extender does not know disruption budgets, so it returns kube-scheduler's number of violations.
    return MetaVictims(
        pods=tuple(MetaPod(uid=uid) for uid in uids), num_pdb_violations=offer.num_pdb_violations
    )
