"""Which of the nodes that fit may still be chosen, so that kube-scheduler need not rank the others.

kube-scheduler multiplies a point of our score by ten times the extender's weight and adds it to the scores of
its own plugins. Where these cannot make up for what a node lacks behind the best one, naming it changes no
choice, and costs both sides: the scheduler runs its own plugins over every node that is left, and asks for
scores where it is more than one. What the plugins of a profile without changes can add (1.30 to 1.37):

==============================  ====  =================================================================
plugin                          most  for which pods
==============================  ====  =================================================================
fit, balance, images             300  all (100 each)
node affinity                    200  with preferred terms
affinity to pods                 200  with preferred terms; also by those of other pods, which we ignore
topology spread                  200  with constraints, or replicas of what spreads by default
ResourceClaims                   200  with claims
taints `PreferNoSchedule`        300  where a node has one
==============================  ====  =================================================================
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from cluster import names
from cluster.decide.ledger import NodeView
from cluster.decide.request import GpuRequest
from cluster.kube.resources import NODES
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from extender.policies import NOTHING
from extender.policies.binpack import binpack
from extender.state.cluster_state import ClusterState
from extender.state.ranks import Ranks
from extender.verbs.prioritize import placement_of

WEIGHT: Final = 10
"""The extender's weight where nothing is set, as in the chart."""
OTHERS: Final = 300
"""What kube-scheduler's plugins can add to a node for a pod that prefers none."""
A_POINT: Final = 10
"""What one point of ours is worth there at weight 1."""
SPREAD_BY_DEFAULT: Final = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})
"""Controllers whose pods kube-scheduler spreads without being asked."""
BINPACK: Final = names.PLACEMENTS[0]
Scores = Callable[[Pod, GpuRequest, Sequence[str]], Sequence[int]]
"""``Prioritize.scores``."""


class Contenders:
    """Nodes that may still be chosen, by the scores that ``prioritize`` would give."""

    def __init__(self, state: ClusterState, scores: Scores, *, placement: str, weight: int) -> None:
        """Args: placement: of pods that request none; weight: the extender's in kube-scheduler's profile."""
        self._state = state
        self._nodes: Mapping[str, Node] = state.of(NODES).live
        self._scores = scores
        self._placement = placement
        self._margin: Final = -(-OTHERS // (A_POINT * weight))

    def narrows(self, pod: Pod, request: GpuRequest) -> bool:
        """Whether our scores may decide for the pod.

        Never for a pod with shares: its scores are made for each question, and cost more than they save.
        """
        return not (request.share or placement_of(pod, self._placement) != BINPACK or prefers(pod))

    def __call__(self, pod: Pod, request: GpuRequest, fitting: Sequence[str]) -> Sequence[str]:
        """Those of the nodes that fit that are less than the margin behind the best one; all if in doubt."""
        if not self.narrows(pod, request):
            return fitting
        scores = self._scores(pod, request, fitting)
        values = set(scores)
        least = max(values) - self._margin
        if min(values) > least:
            return fitting
        found = [name for name, score in zip(fitting, scores, strict=True) if score > least]
        return fitting if any(map(self._is_avoided, found)) else found

    @staticmethod
    def score(request: GpuRequest, view: NodeView) -> int:
        """What a node is ranked by where our scores may decide."""
        return binpack(request, view, NOTHING)

    def among(self, ranks: Ranks, request: GpuRequest, without: Collection[str]) -> Sequence[str] | None:
        """The same of all nodes that fit but some, by their ranks (``score``); None for all of them."""
        state, instead = self._state, dict[str, int]()
        if request.demand:
            reserved = {
                name: devices
                for name, devices in state.soft.of_others(request.uid).items()
                if ranks.of(name) is not None and name not in without
            }
            for name, view in state.views_beside(reserved).items():
                instead[name] = self.score(request, view)
            for name in state.awaiting_nodes():
                if (usual := instead.get(name, ranks.of(name))) is not None:
                    instead[name] = max(usual - 1, 0)
        found = ranks.near_the_best(self._margin, without, instead)
        return None if found is None or any(map(self._is_avoided, found)) else found

    def _is_avoided(self, name: str) -> bool:
        node = self._nodes.get(name)
        return node is None or any(taint.effect == "PreferNoSchedule" for taint in node.spec.taints or ())


def prefers(pod: Pod) -> bool:
    """Whether kube-scheduler prefers some nodes for this pod in a way that can outdo our scores."""
    spec, controller = pod.spec, pod.metadata.controller
    affinity = spec.affinity
    terms = (affinity.node_affinity, affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    return bool(
        any(one.preferred for one in terms if one)
        or spec.topology_spread_constraints
        or spec.resource_claims
        or (controller and controller.kind in SPREAD_BY_DEFAULT)
    )
