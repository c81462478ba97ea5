"""The checks for one pod: computed once per pod as far as possible, the rest per node."""

from typing import Final, Protocol

import msgspec

from cluster.decide.node_fit import TOO_BIG, affinity_rejection, node_rejection
from cluster.decide.scheduler_filters.cluster_objects import ClusterObjects
from cluster.decide.scheduler_filters.existing_pods import ports_of
from cluster.decide.scheduler_filters.inter_pod_affinity import PodAffinity
from cluster.decide.scheduler_filters.node_ports import Ports
from cluster.decide.scheduler_filters.node_resources_fit import Resources
from cluster.decide.scheduler_filters.pod_topology_spread import Spread
from cluster.decide.scheduler_filters.resource_amounts import requests
from cluster.decide.scheduler_filters.volume_binding import Volumes
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod

NO_PODS: Final[frozenset[str]] = frozenset()


class Constraint(Protocol):
    """A condition that depends on more than the node; falsy if the pod has none of its kind."""

    def rejection(self, node: Node, without: frozenset[str], /) -> str | None:
        """Why the pod may not be on the node once these pods are gone."""
        ...


class Checker:
    """Where one pod would be placed, in the cluster of one instant. Created by ``checker_for``."""

    def __init__(self, pod: Pod, cluster_objects: ClusterObjects) -> None:
        self._pod = pod
        self._cluster_objects = cluster_objects
        self._resources = Resources(requests(pod))
        ports = ports_of(pod)
        self._ports = Ports(ports) if ports else None
        constraints: list[Constraint] = [
            Volumes(pod, cluster_objects),
            PodAffinity(pod, cluster_objects),
            Spread(pod, cluster_objects),
        ]
        self._constraints = [constraint for constraint in constraints if constraint]
        self._known = cluster_objects.known.setdefault(_node_terms(pod), {})

    def unresolvable_reason(self, node: Node) -> str | None:
        """Why the pod would not be placed on the node whichever pods leave it; None if there is no reason."""
        name = node.metadata.name
        if name not in self._known:
            self._known[name] = affinity_rejection(self._pod, node)
        return self._known[name]

    def why_not(self, node: Node, *, without: frozenset[str] = NO_PODS) -> str | None:
        """Why the pod would not be placed on the node once these pods are gone; None if it would.

        Args:
            node: a node of the cluster.
            without: uids; terminating pods count as gone anyway.
        """
        if unresolvable := self.unresolvable_reason(node):
            return unresolvable
        on_node = self._cluster_objects.pods_on(node.metadata.name)
        gone = [other for other in on_node.others if other.uid in without] if without else []
        if short := self._resources.rejection(node, on_node, gone):
            return TOO_BIG if node_rejection(self._pod, node) else short
        if self._ports and (taken := self._ports.rejection(node, on_node, gone)):
            return taken
        reasons = (constraint.rejection(node, without) for constraint in self._constraints)
        return next(filter(None, reasons), None)


def checker_for(pod: Pod, cluster_objects: ClusterObjects) -> Checker:
    """A checker for the pod, to be used for many nodes."""
    return Checker(pod, cluster_objects)


def _node_terms(pod: Pod) -> bytes:
    """What the pod requires of a node whatever else runs there: equal for pods with equal answers."""
    spec = pod.spec
    affinity = spec.affinity.node_affinity if spec.affinity else None
    return msgspec.json.encode((spec.node_selector, affinity, spec.tolerations))
