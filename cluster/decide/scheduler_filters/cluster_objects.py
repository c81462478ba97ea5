"""The cluster around a pod to be scheduled, at one instant. Plain values: no lock, no clock."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from cluster.decide.scheduler_filters.existing_pods import ExistingPod, NodePods, node_pods_of, other_of
from cluster.objects.namespaces import Namespace
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from cluster.objects.volumes import StorageClass, Volume, VolumeClaim

_EMPTY: Final = NodePods()
Standing = tuple[Node, ExistingPod]
"""A pod and its node."""


_SHY: Final = "names_with_anti_affinity"


@dataclass(frozen=True, kw_only=True)
class ClusterObjects:
    """Nodes, the pods on them, and the objects that pods refer to."""

    nodes: Mapping[str, Node] = field(default_factory=dict)
    """Name -> node."""
    node_pods: Mapping[str, NodePods] = field(default_factory=dict)
    """Node -> the pods that stay on it."""
    claims: Mapping[str, VolumeClaim] = field(default_factory=dict)
    """``namespace/name`` -> claim."""
    volumes: Mapping[str, Volume] = field(default_factory=dict)
    """Name -> volume."""
    classes: Mapping[str, StorageClass] = field(default_factory=dict)
    """Name -> storage class."""
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    """Name -> namespace."""
    known: dict[bytes, dict[str, str | None]] = field(default_factory=dict, repr=False, compare=False)
    """Cache: what pods require of a node, whatever else runs there -> node -> reason, None if it suits."""

    def pods_on(self, node: str) -> NodePods:
        """The pods on a node."""
        return self.node_pods.get(node, _EMPTY)

    def standing(self) -> Iterator[Standing]:
        """All pods on nodes that exist."""
        for name, on_node in self.node_pods.items():
            node = self.nodes.get(name)
            if node is not None:
                for other in on_node.others:
                    yield node, other

    @cached_property
    def with_anti_affinity(self) -> tuple[Standing, ...]:
        """Pods that have anti-affinity terms."""
        names: Iterable[str] = vars(self).get(_SHY, self.node_pods)
        found = ((self.nodes.get(name), self.pods_on(name).with_anti_affinity) for name in names)
        return tuple((node, other) for node, others in found if node for other in others)

    def knowing_anti_affinity(self, names: Iterable[str]) -> "ClusterObjects":
        """This, knowing on which nodes there are pods with anti-affinity terms: not all are looked at."""
        vars(self)[_SHY] = tuple(names)
        return self

    def placing(self, pod: Pod, node: str, *, without: frozenset[str] = frozenset()) -> "ClusterObjects":
        """The same instant with the pod on the node, and without the pods with these uids."""
        node_pods = dict(self.node_pods)
        settled = {other.uid for other in self.pods_on(node).others} & without
        homes = tuple(self._homes(without - settled, node)) if without > settled else (node,)
        for name in homes:
            kept = [other for other in self.pods_on(name).others if other.uid not in without]
            newcomer = other_of(pod) if name == node else None
            if newcomer and all(other.uid != newcomer.uid for other in kept):
                kept.append(newcomer)
            node_pods[name] = node_pods_of(kept)
        later = replace(self, node_pods=node_pods)
        if not any(
            one.get(name, _EMPTY).with_anti_affinity for name in homes for one in (self.node_pods, node_pods)
        ):
            vars(later)["with_anti_affinity"] = self.with_anti_affinity  # no pod that counts has come or gone
        return later

    def _homes(self, uids: frozenset[str], node: str) -> Iterator[str]:
        """The node, and others that have one of these pods."""
        yield node
        for name, on_node in self.node_pods.items():
            if name != node and any(other.uid in uids for other in on_node.others):
                yield name
