"""Selectors and scheduling constraints, as written in the specs of pods and volumes."""

from typing import Literal

import msgspec

from cluster.objects.meta import Partial

RequiredName = "requiredDuringSchedulingIgnoredDuringExecution"
PreferredName = "preferredDuringSchedulingIgnoredDuringExecution"


class Requirement(Partial, frozen=True):
    """One entry of ``matchExpressions`` or ``matchFields``."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class LabelSelector(Partial, frozen=True):
    """A ``labelSelector``: all of it must match. An empty one selects everything, a missing one nothing."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Requirement, ...] | None = None


class NodeSelectorTerm(Partial, frozen=True):
    """One of the terms of a required node affinity, of which one must match."""

    match_expressions: tuple[Requirement, ...] | None = None
    match_fields: tuple[Requirement, ...] | None = None


class NodeSelector(Partial, frozen=True):
    """``requiredDuringSchedulingIgnoredDuringExecution`` of a node affinity."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class Preference(Partial, frozen=True):
    """A preferred term. Only whether there is one matters here."""


class NodeAffinity(Partial, frozen=True):
    """``spec.affinity.nodeAffinity``."""

    required: NodeSelector | None = msgspec.field(name=RequiredName, default=None)
    preferred: tuple[Preference, ...] | None = msgspec.field(name=PreferredName, default=None)


class PodAffinityTerm(Partial, frozen=True):
    """One required term, about pods in the same topology domain.

    ``matchLabelKeys`` and ``mismatchLabelKeys`` are missing here: the API server writes them into the
    selector when a pod is created.
    """

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None


class PodAffinity(Partial, frozen=True):
    """``spec.affinity.podAffinity`` or ``podAntiAffinity``; preferred terms are not conditions."""

    required: tuple[PodAffinityTerm, ...] | None = msgspec.field(name=RequiredName, default=None)
    preferred: tuple[Preference, ...] | None = msgspec.field(name=PreferredName, default=None)


class Affinity(Partial, frozen=True):
    """``spec.affinity``."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SpreadConstraint(Partial, frozen=True):
    """One entry of ``spec.topologySpreadConstraints``."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] | None = None
    min_domains: int | None = None
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    node_taints_policy: Literal["Honor", "Ignore"] | None = None
