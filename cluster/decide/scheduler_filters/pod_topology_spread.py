"""Topology spread constraints that must hold (``DoNotSchedule``).

Source: kube-scheduler 1.37, PodTopologySpread.
"""

from dataclasses import dataclass
from typing import Final

from cluster.decide.node_fit import is_selected, tolerates_taints
from cluster.decide.scheduler_filters.affinity_terms import is_empty, selects
from cluster.decide.scheduler_filters.cluster_objects import ClusterObjects
from cluster.decide.scheduler_filters.domain_counts import DomainCounts
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from cluster.objects.selectors import LabelSelector, SpreadConstraint

NO_DOMAIN: Final = "the node lacks a label over which the pod must be spread"
UNEVEN: Final = "the pods of its kind would be spread too unevenly"


@dataclass(frozen=True, slots=True)
class _Rule:
    """One constraint, and how many of the pods that it counts each domain has."""

    written: SpreadConstraint
    selector: LabelSelector | None
    itself: int
    """1 if the constraint counts the pod itself, else 0."""
    tally: DomainCounts

    def is_broken(self, value: str, without: frozenset[str]) -> bool:
        """Whether the pod would exceed the allowed skew in this domain."""
        here = self.tally.count((self.written.topology_key, value), without)
        least = self.tally.least(without)
        if len(self.tally) < (self.written.min_domains or 1):
            least = 0  # domains that are still missing have no pods
        return here + self.itself - least > self.written.max_skew


class Spread:
    """The spread constraints of one pod that must hold."""

    def __init__(self, pod: Pod, cluster_objects: ClusterObjects) -> None:
        constraints = pod.spec.topology_spread_constraints or ()
        must = [one for one in constraints if one.when_unsatisfiable == "DoNotSchedule"]
        self._rules = [_rule(one, pod) for one in must]
        if must:
            self._count(pod, cluster_objects)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._rules)

    def rejection(self, node: Node, without: frozenset[str]) -> str | None:
        """Why the pod may not be on the node once these pods are gone; None if it may."""
        labels = node.metadata.labels or {}
        for rule in self._rules:
            value = labels.get(rule.written.topology_key)
            if value is None:
                return NO_DOMAIN
            if rule.is_broken(value, without):
                return UNEVEN
        return None

    def _count(self, pod: Pod, cluster_objects: ClusterObjects) -> None:
        """Count the pods per domain; nodes that lack one of the labels count for none of the constraints."""
        keys = {rule.written.topology_key for rule in self._rules}
        for name, node in cluster_objects.nodes.items():
            labels = node.metadata.labels or {}
            if not keys <= labels.keys():
                continue
            kin = [o for o in cluster_objects.pods_on(name).others if o.namespace == pod.metadata.namespace]
            for rule in self._rules:
                if not _takes_part(rule.written, pod, node):
                    continue
                domain = (rule.written.topology_key, labels[rule.written.topology_key])
                rule.tally.open(domain)
                # With a selector that selects everything, the scheduler counts only the pod itself.
                if rule.selector is not None and not is_empty(rule.selector):
                    for other in kin:
                        if selects(rule.selector, other.labels):
                            rule.tally.add(other.uid, (domain,))


def _rule(written: SpreadConstraint, pod: Pod) -> _Rule:
    labels = pod.metadata.labels or {}
    selector = written.label_selector
    keys = {key: labels[key] for key in written.match_label_keys or () if key in labels}
    if keys and selector is not None:
        both = {**(selector.match_labels or {}), **keys}
        selector = LabelSelector(match_labels=both, match_expressions=selector.match_expressions)
    itself = int(selects(selector, labels))
    return _Rule(written=written, selector=selector, itself=itself, tally=DomainCounts())


def _takes_part(written: SpreadConstraint, pod: Pod, node: Node) -> bool:
    if written.node_affinity_policy != "Ignore" and not is_selected(pod, node):
        return False
    return written.node_taints_policy != "Honor" or tolerates_taints(pod, node)
