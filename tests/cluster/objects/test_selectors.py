"""Selectors and constraints are read as pods and volumes write them."""

from typing import Any

import msgspec
import pytest

from cluster.objects.selectors import (
    Affinity,
    LabelSelector,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    Preference,
    Requirement,
    SpreadConstraint,
)

HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEB = {"matchLabels": {"app": "web"}}


def read(**affinity: Any) -> Affinity:
    return msgspec.convert(affinity, Affinity)


def test_the_required_terms_of_a_node_affinity_are_read() -> None:
    labels = {"key": "disk", "operator": "In", "values": ["ssd"]}
    fields = {"key": "metadata.name", "operator": "NotIn", "values": ["n0"]}
    term = {"matchExpressions": [labels, {"key": "gpu", "operator": "Exists"}], "matchFields": [fields]}
    found = read(
        nodeAffinity={
            REQUIRED: {"nodeSelectorTerms": [term, {}]},
            PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [labels]}}],
        }
    ).node_affinity
    assert found is not None
    assert found.required is not None
    assert found.required.node_selector_terms == (
        NodeSelectorTerm(
            match_expressions=(
                Requirement(key="disk", operator="In", values=("ssd",)),
                Requirement(key="gpu", operator="Exists"),
            ),
            match_fields=(Requirement(key="metadata.name", operator="NotIn", values=("n0",)),),
        ),
        NodeSelectorTerm(),
    )


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_the_required_terms_of_pod_affinity_and_anti_affinity_are_read_separately(kind: str) -> None:
    term = {
        "topologyKey": HOST,
        "labelSelector": WEB,
        "namespaces": ["team"],
        "namespaceSelector": {},
        "matchLabelKeys": ["pod-template-hash"],
    }
    preferred = [{"weight": 1, "podAffinityTerm": {"topologyKey": "rack"}}]
    found = read(**{kind: {REQUIRED: [term], PREFERRED: preferred}})
    expected = PodAffinity(
        required=(
            PodAffinityTerm(
                topology_key=HOST,
                label_selector=LabelSelector(match_labels={"app": "web"}),
                namespaces=("team",),
                namespace_selector=LabelSelector(),
            ),
        ),
        preferred=(Preference(),),
    )
    assert (found.pod_affinity, found.pod_anti_affinity) == (
        (expected, None) if kind == "podAffinity" else (None, expected)
    )


@pytest.mark.parametrize("body", [{}, {PREFERRED: []}, {REQUIRED: None}])
@pytest.mark.parametrize("kind", ["nodeAffinity", "podAffinity", "podAntiAffinity"])
def test_preferred_terms_are_not_required(kind: str, body: dict[str, Any]) -> None:
    found = read(**{kind: body})
    (one,) = (one for one in (found.node_affinity, found.pod_affinity, found.pod_anti_affinity) if one)
    assert one.required is None


def test_an_empty_selector_differs_from_none() -> None:
    """The first selects everything, the second nothing."""
    empty, none = (
        msgspec.convert({"topologyKey": HOST, "labelSelector": one}, PodAffinityTerm) for one in ({}, None)
    )
    assert (empty.label_selector, none.label_selector) == (LabelSelector(), None)
    assert empty != none


def test_a_spread_constraint_is_read_whole() -> None:
    found = msgspec.convert(
        {
            "maxSkew": 2,
            "topologyKey": HOST,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": WEB,
            "matchLabelKeys": ["pod-template-hash"],
            "minDomains": 3,
            "nodeAffinityPolicy": "Ignore",
            "nodeTaintsPolicy": "Honor",
        },
        SpreadConstraint,
    )
    assert found == SpreadConstraint(
        max_skew=2,
        topology_key=HOST,
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels={"app": "web"}),
        match_label_keys=("pod-template-hash",),
        min_domains=3,
        node_affinity_policy="Ignore",
        node_taints_policy="Honor",
    )


@pytest.mark.parametrize("policy", ["Sometimes", "honor", ""])
@pytest.mark.parametrize("key", ["nodeAffinityPolicy", "nodeTaintsPolicy"])
def test_an_unknown_policy_is_refused_rather_than_misread(key: str, policy: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=key):
        msgspec.convert({key: policy}, SpreadConstraint)
