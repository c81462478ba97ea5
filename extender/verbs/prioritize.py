"""The verb ``prioritize``: which of the fitting nodes is best. Not called when only one fits."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from cluster import names
from cluster.decide.ledger import Ledger
from cluster.decide.request import GpuRequest, RequestKey
from cluster.decide.reserve import Reserve, reserve
from cluster.objects.pods import Pod
from cluster.process.clock import Clock
from extender.policies import NOTHING, Policy
from extender.policies.binpack import binpack
from extender.policies.booked_reserve import booked_reserve
from extender.policies.spread import spread
from extender.policies.topology import topology
from extender.state.cluster_state import ClusterState
from extender.wire import MAX_SCORE, ExtenderArgs, HostPriority, LoggedAnswer

POLICIES: Final[Mapping[str, Policy]] = dict(
    zip(names.PLACEMENTS, (binpack, spread, topology, booked_reserve), strict=True)
)
"""Name -> policy."""
ANSWERED: Final = "prioritize answered"
KINDS: Final = 16
"""Number of kinds of pods for which scores are cached: pods of one kind come in bursts."""


@dataclass(slots=True)
class _Scores:
    """Scores by one policy, for pods of one kind, for the nodes at one generation of the ledger."""

    generation: int = -1
    reserved: Reserve = field(default_factory=dict)
    by_node: dict[str, int] = field(default_factory=dict)

    def forget(self, ledger: Ledger, reserved: Reserve) -> None:
        """Drop the scores of nodes that have changed since."""
        changed = ledger.changed_since(self.generation)
        if changed is None:
            self.by_node = {}
        else:
            for node in changed:
                self.by_node.pop(node, None)
        for node in self.reserved.keys() | reserved.keys():
            if self.reserved.get(node) != reserved.get(node):
                self.by_node.pop(node, None)
        self.generation, self.reserved = ledger.generation, reserved


class Prioritize:
    """Ranks nodes by the policy that the pod requests, or else by that of the settings."""

    def __init__(self, state: ClusterState, clock: Clock, placement: str = names.PLACEMENTS[0]) -> None:
        """Args: placement: the policy of pods that request none."""
        self._state = state
        self._clock = clock
        self._placement = placement
        self._lock = threading.Lock()
        self._cached: OrderedDict[tuple[str, RequestKey], _Scores] = OrderedDict()

    def __call__(self, arguments: ExtenderArgs) -> list[HostPriority]:
        """A score for every offered node, for a caller in this process.

        Raises:
            QuantityError: an amount of GPUs that cannot be read.
        """
        pod, nodes = arguments.pod, arguments.node_names or ()
        scores = self.scores(pod, self._state.request(self._state.with_claims(pod)), nodes)
        return [HostPriority(host=name, score=score) for name, score in zip(nodes, scores, strict=True)]

    def answer_logged(self, arguments: ExtenderArgs) -> LoggedAnswer:
        """The encoded answer: by how much each node is better than the worst of them.

        kube-scheduler (1.28 to 1.37) adds a node's score to its plugins' scores, and adds nothing for a node
        without one. A common part of all scores changes no choice, and of 1,000 nodes most are alike. Leaving
        it out saves us two tenths of a millisecond, and the scheduler more, since it would read each score.

        Raises:
            QuantityError: an amount of GPUs that cannot be read.
        """
        pod, nodes = self._state.with_claims(arguments.pod), arguments.node_names or ()
        request = self._state.request(pod)
        scores = self.scores(pod, request, nodes)
        least, best = min(scores, default=0), max(scores, default=None)
        first = None if best is None else nodes[scores.index(best)]
        if first is not None:
            self._state.reserve_softly(request, first)
        better = [
            HostPriority(host=name, score=score - least)
            for name, score in zip(nodes, scores, strict=True)
            if score != least
        ]
        line = {
            "pod": pod.key,
            "uid": pod.metadata.uid,
            "placement": placement_of(pod, self._placement),
            "nodes": len(scores),
            "best": first,
            "score": best,
        }
        return LoggedAnswer(msgspec.json.encode(better), ANSWERED, line)

    def scores(self, pod: Pod, request: GpuRequest, nodes: Sequence[str]) -> list[int]:
        """The scores of these nodes, 0 to ``MAX_SCORE``, in their order."""
        scores, booked = self._by_policy(pod, request, nodes)
        if request.demand and (reserved := self._state.soft.of_others(request.uid)):
            # Pods that are about to get devices there have them already, as far as a choice of a node goes.
            policy = POLICIES[placement_of(pod, self._placement)]
            offered = reserved.keys() & set(nodes)
            views = self._state.views_beside({name: reserved[name] for name in offered})
            scores = [
                policy(request, views[name], booked.get(name, NOTHING)) if name in views else score
                for name, score in zip(nodes, scores, strict=True)
            ]
        if request.demand and (awaiting := self._state.awaiting_nodes()):
            # Another node that is nearly as good takes the pod now.
            scores = [
                max(score - 1, 0) if name in awaiting else score
                for name, score in zip(nodes, scores, strict=True)
            ]
        planned = self._state.planned(pod, request)
        if planned is None or not any(best := [planned(name) for name in nodes]):
            return scores
        # Planned nodes first: on them no other booking has to be moved. The policy decides among the rest.
        return [
            MAX_SCORE if is_best else min(score, MAX_SCORE - 1)
            for score, is_best in zip(scores, best, strict=True)
        ]

    def _by_policy(self, pod: Pod, request: GpuRequest, nodes: Sequence[str]) -> tuple[list[int], Reserve]:
        """Scores by the policy alone, and by which devices that running bookings will need.

        They are cached, and computed again only for nodes that have changed.
        """
        placement = placement_of(pod, self._placement)
        policy = POLICIES[placement]
        with self._lock:
            known = self._of_kind(placement, request)
            with self._state.locked() as ledger:
                known.forget(ledger, self._reserved(pod, ledger) if placement == "booked-reserve" else {})
                try:  # usually nothing is missing, and looking for what is takes as long again
                    return list(map(known.by_node.__getitem__, nodes)), known.reserved
                except KeyError:
                    views = ledger.views(set(nodes).difference(known.by_node))
            for view in views:
                known.by_node[view.name] = policy(request, view, known.reserved.get(view.name, NOTHING))
            return list(map(known.by_node.__getitem__, nodes)), known.reserved

    def _of_kind(self, placement: str, request: GpuRequest) -> _Scores:
        if request.hold:
            return _Scores()  # only its own devices are offered to it
        kind = (placement, request.key)
        known = self._cached.setdefault(kind, _Scores())
        self._cached.move_to_end(kind)
        if len(self._cached) > KINDS:
            self._cached.popitem(last=False)
        return known

    def _reserved(self, pod: Pod, ledger: Ledger) -> Reserve:
        """Devices that running bookings will need; none if the pod itself is booked."""
        now = self._clock.now()
        if self._state.cover_of(pod, now):
            return {}
        cover = self._state.cover(now)
        nodes = {holding.node for uid in cover if (holding := ledger.holding(uid)) is not None}
        # Holdings from the views include the devices that the node's agent reports.
        holdings = {
            holding.uid: (holding, view)
            for view in ledger.views(nodes)
            for holding in view.holdings
            if holding.uid in cover
        }
        return reserve(self._state.bookings.values(), cover, holdings, now)


def placement_of(pod: Pod, default: str) -> str:
    """The policy that the pod requests, or ``default`` if it requests none that exists."""
    requested = (pod.metadata.annotation(names.PLACEMENT) or "").strip()
    return requested if requested in POLICIES else default
