"""Which pods a label selector or a term of pod affinity selects."""

from collections.abc import Mapping

import msgspec

from cluster.decide.node_fit import holds
from cluster.objects.namespaces import Namespace
from cluster.objects.selectors import LabelSelector, PodAffinity, PodAffinityTerm

Labels = Mapping[str, str]


class Term(msgspec.Struct, frozen=True, gc=False):
    """A term of a pod's required pod affinity or anti-affinity."""

    topology_key: str
    selector: LabelSelector | None
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None = None

    def speaks_of(self, namespace: str, about: Labels, labels: Labels) -> bool:
        """Whether the term selects a pod with ``labels`` in a namespace with the labels ``about``."""
        inside = namespace in self.namespaces or selects(self.namespace_selector, about)
        return inside and selects(self.selector, labels)


class Reach(msgspec.Struct, frozen=True, gc=False):
    """A term whose namespaces are resolved, because it is matched with very many pods."""

    topology_key: str
    selector: LabelSelector | None
    namespaces: frozenset[str] | None
    """None for all."""

    def includes(self, namespace: str, labels: Labels) -> bool:
        """Whether the term selects a pod in this namespace with these labels."""
        return (self.namespaces is None or namespace in self.namespaces) and selects(self.selector, labels)


def reach_of(term: Term, namespaces: Mapping[str, Namespace]) -> Reach:
    """The term with its namespaces resolved among the existing ones."""
    chosen = term.namespace_selector
    found: frozenset[str] | None = None
    if chosen is None or not is_empty(chosen):
        selected = (name for name, one in namespaces.items() if selects(chosen, one.metadata.labels or {}))
        found = term.namespaces.union(selected) if chosen else term.namespaces
    return Reach(topology_key=term.topology_key, selector=term.selector, namespaces=found)


def terms_of(affinity: PodAffinity | None, namespace: str) -> tuple[Term, ...]:
    """The required terms of a pod of this namespace."""
    return tuple(_term(written, namespace) for written in (affinity.required if affinity else None) or ())


def _term(written: PodAffinityTerm, namespace: str) -> Term:
    """The term as written; if it names no namespaces, it is about the pod's own."""
    namespaces = frozenset(written.namespaces or ())
    if not namespaces and written.namespace_selector is None:
        namespaces = frozenset((namespace,))
    return Term(
        topology_key=written.topology_key,
        selector=written.label_selector,
        namespaces=namespaces,
        namespace_selector=written.namespace_selector,
    )


def selects(selector: LabelSelector | None, labels: Labels) -> bool:
    """Whether labels match all of the selector; a missing selector matches nothing."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in (selector.match_labels or {}).items()) and all(
        holds(wanted, labels.get(wanted.key)) for wanted in selector.match_expressions or ()
    )


def is_empty(selector: LabelSelector) -> bool:
    """Whether the selector is empty, and so selects everything."""
    return not selector.match_labels and not selector.match_expressions
