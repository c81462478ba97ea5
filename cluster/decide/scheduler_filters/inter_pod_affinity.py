"""Required pod affinity and anti-affinity: the pod's own, and the anti-affinity of existing pods.

Source: kube-scheduler 1.37, InterPodAffinity.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from cluster.decide.scheduler_filters.affinity_terms import Labels, Reach, Term, reach_of, terms_of
from cluster.decide.scheduler_filters.cluster_objects import ClusterObjects
from cluster.decide.scheduler_filters.domain_counts import Domain, DomainCounts
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from cluster.objects.selectors import PodAffinity as PodAffinityTerms

UNWANTED: Final = "a pod that is there does not want the pod near"
REPELLED: Final = "a pod is there that the pod does not want near"
ALONE: Final = "no pod is there that the pod must be near"


class PodAffinity:
    """One pod's affinity and anti-affinity to others, and others' anti-affinity to it."""

    def __init__(self, pod: Pod, cluster_objects: ClusterObjects) -> None:
        self._namespace = pod.metadata.namespace
        self._labels = pod.metadata.labels or {}
        affinity = pod.spec.affinity
        self._near = _reaches(affinity.pod_affinity if affinity else None, self._namespace, cluster_objects)
        self._far = _reaches(
            affinity.pod_anti_affinity if affinity else None, self._namespace, cluster_objects
        )
        self._affinity_counts, self._anti_affinity_counts = DomainCounts(), DomainCounts()
        self._existing_anti_affinity_counts = DomainCounts()
        self._count_existing_anti_affinity(cluster_objects)
        if self._near or self._far:
            self._count_others(cluster_objects)

    def __bool__(self) -> bool:
        """Whether any node could be excluded."""
        return bool(self._near or self._anti_affinity_counts or self._existing_anti_affinity_counts)

    def rejection(self, node: Node, without: frozenset[str]) -> str | None:
        """Why the pod may not be on the node, these pods being gone."""
        if not self._satisfies_affinity(node, without):
            return ALONE
        far = (_domain(node, term.topology_key) for term in self._far)
        if self._anti_affinity_counts and _any(far, self._anti_affinity_counts, without):
            return REPELLED
        existing, domains = self._existing_anti_affinity_counts, (node.metadata.labels or {}).items()
        if existing and _any(domains, existing, without):
            return UNWANTED
        return None

    def _satisfies_affinity(self, node: Node, without: frozenset[str]) -> bool:
        """Each term finds a pod; or they match only the pod itself, the first of a group."""
        labels = node.metadata.labels or {}
        if not all(term.topology_key in labels for term in self._near):
            return False
        domains = ((term.topology_key, labels[term.topology_key]) for term in self._near)
        if all(self._affinity_counts.count(domain, without) > 0 for domain in domains):
            return True
        return self._affinity_counts.total(without) == 0 and _all(self._near, self._namespace, self._labels)

    def _count_existing_anti_affinity(self, cluster_objects: ClusterObjects) -> None:
        known = cluster_objects.namespaces.get(self._namespace)
        about = (known.metadata.labels if known else None) or {}
        for node, other in cluster_objects.with_anti_affinity:
            terms = [t for t in other.anti_affinity if t.speaks_of(self._namespace, about, self._labels)]
            self._existing_anti_affinity_counts.add(other.uid, _domains(node, terms))

    def _count_others(self, cluster_objects: ClusterObjects) -> None:
        for node, other in cluster_objects.standing():
            if self._near and _all(self._near, other.namespace, other.labels):
                self._affinity_counts.add(other.uid, _domains(node, self._near))
            matching = [reach for reach in self._far if reach.includes(other.namespace, other.labels)]
            if matching:
                self._anti_affinity_counts.add(other.uid, _domains(node, matching))


def _reaches(
    affinity: PodAffinityTerms | None, namespace: str, cluster_objects: ClusterObjects
) -> tuple[Reach, ...]:
    return tuple(reach_of(term, cluster_objects.namespaces) for term in terms_of(affinity, namespace))


def _all(reaches: Iterable[Reach], namespace: str, labels: Labels) -> bool:
    return all(reach.includes(namespace, labels) for reach in reaches)


def _domains(node: Node, terms: Iterable[Term | Reach]) -> Iterator[Domain]:
    return (domain for term in terms if (domain := _domain(node, term.topology_key)))


def _domain(node: Node, key: str) -> Domain | None:
    value = (node.metadata.labels or {}).get(key)
    return None if value is None else (key, value)


def _any(domains: Iterable[Domain | None], tally: DomainCounts, without: frozenset[str]) -> bool:
    return any(domain is not None and tally.count(domain, without) > 0 for domain in domains)
