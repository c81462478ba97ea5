"""Pod affinity and anti-affinity, and which nodes they reject."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest

from cluster.decide.scheduler_filters import ClusterObjects, node_pods_of, other_of
from cluster.decide.scheduler_filters.inter_pod_affinity import ALONE, REPELLED, UNWANTED, PodAffinity
from cluster.objects.namespaces import Namespace
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from tests.cluster.decide.scheduler_filters import cases
from tests.cluster.decide.scheduler_filters.cases import HOST, OTHER, TEAM, ZONE, selector, term
from tests.cluster.decide.scheduler_filters.world import pod_of

NO_PODS: frozenset[str] = frozenset()
NODES = {
    "n0": {HOST: "n0", ZONE: "a"},
    "n1": {HOST: "n1", ZONE: "a"},
    "n2": {HOST: "n2", ZONE: "b"},
    "bare": {},
}
"""Two nodes in one zone, one in another, one without labels."""
WEB, DB, GPU = (selector(app=app) for app in ("web", "db", "gpu"))


def near(*terms: cases.Json) -> cases.Json:
    return cases.required("podAffinity", *terms)


def far(*terms: cases.Json) -> cases.Json:
    return cases.required("podAntiAffinity", *terms)


def a_pod(name: str = "new", app: str = "", namespace: str = TEAM, **affinity: Any) -> Pod:
    labels = {"app": app} if app else {}
    return pod_of(cases.a_pod(name, namespace, labels, **({"affinity": affinity} if affinity else {})))


def cluster_objects(pods: Mapping[str, Iterable[Pod]] | None = None) -> ClusterObjects:
    """The nodes with these pods on them."""
    nodes = {
        name: msgspec.convert({"metadata": {"name": name, "labels": labels or None}}, Node)
        for name, labels in NODES.items()
    }
    node_pods = {
        node: node_pods_of(other for pod in there if (other := other_of(pod)))
        for node, there in (pods or {}).items()
    }
    namespaces = {
        name: msgspec.convert({"metadata": {"name": name, "labels": labels}}, Namespace)
        for name, labels in cases.NAMESPACES.items()
    }
    return ClusterObjects(nodes=nodes, node_pods=node_pods, namespaces=namespaces)


def verdicts(
    pod: Pod, pods: Mapping[str, Iterable[Pod]] | None = None, without: frozenset[str] = NO_PODS
) -> list[str | None]:
    """The verdict on each of the nodes."""
    there = cluster_objects(pods)
    wanted = PodAffinity(pod, there)
    return [wanted.rejection(node, without) for node in there.nodes.values()]


# --- whether anything is to be checked ---------------------------------------------------------------
@pytest.mark.parametrize(
    ("pod", "pods", "is_needed"),
    [
        (a_pod(), {}, False),
        (a_pod(**near(term(ZONE, WEB))), {}, True),
        (a_pod(**far(term(ZONE, WEB))), {}, False),
        (a_pod(**far(term(ZONE, WEB))), {"n0": [a_pod("w", "web")]}, True),
        (a_pod(**far(term(ZONE, WEB))), {"bare": [a_pod("w", "web")]}, False),
        (a_pod(app="gpu"), {"n0": [a_pod("shy", **far(term(ZONE, GPU)))]}, True),
        (a_pod(app="gpu"), {"n0": [a_pod("shy", **far(term(ZONE, WEB)))]}, False),
        (a_pod(app="gpu"), {"n0": [a_pod("fond", **near(term(ZONE, GPU)))]}, False),
        (a_pod(podAffinity={}, podAntiAffinity={}), {"n0": [a_pod("w", "web")]}, False),
    ],
    ids=[
        "no affinity",
        "affinity",
        "anti-affinity to a missing pod",
        "anti-affinity to a pod in a domain",
        "anti-affinity to a pod in no domain",
        "anti-affinity of another pod to it",
        "anti-affinity of another pod to others",
        "affinity of another pod to it",
        "no required terms",
    ],
)
def test_a_pod_is_checked_only_if_some_node_could_be_rejected(
    pod: Pod, pods: dict[str, list[Pod]], *, is_needed: bool
) -> None:
    assert bool(PodAffinity(pod, cluster_objects(pods))) == is_needed


# --- affinity ----------------------------------------------------------------------------------------
def test_a_pod_goes_to_the_domain_of_a_pod_that_its_affinity_matches() -> None:
    pods = {"n1": [a_pod("w", "web")]}
    assert verdicts(a_pod(**near(term(ZONE, WEB))), pods) == [None, None, ALONE, ALONE]
    assert verdicts(a_pod(**near(term(HOST, WEB))), pods) == [ALONE, None, ALONE, ALONE]


def test_each_affinity_term_needs_a_match_in_its_own_domain() -> None:
    pods = {"n1": [a_pod("w", "web")]}
    assert verdicts(a_pod(**near(term(ZONE, WEB), term(HOST, WEB))), pods) == [ALONE, None, ALONE, ALONE]


def test_only_a_pod_that_matches_all_terms_counts() -> None:
    pods = {"n0": [a_pod("w", "web")], "n1": [a_pod("d", "db")]}
    both = near(term(ZONE, WEB), term(ZONE, DB))
    assert verdicts(a_pod(**both), pods) == [ALONE] * 4


def test_a_node_without_the_topology_label_of_a_term_is_rejected() -> None:
    first = a_pod(app="web", **near(term("rack", WEB)))
    assert verdicts(first) == [ALONE] * 4


def test_the_first_pod_of_a_group_goes_to_any_node_with_the_topology_label() -> None:
    first = a_pod(app="web", **near(term(ZONE, WEB)))
    assert verdicts(first) == [None, None, None, ALONE]


def test_the_second_pod_of_a_group_goes_where_the_first_is() -> None:
    second = a_pod(app="web", **near(term(ZONE, WEB)))
    assert verdicts(second, {"n2": [a_pod("w", "web")]}) == [ALONE, ALONE, None, ALONE]


def test_the_next_pod_is_the_first_of_its_group_once_the_others_have_left() -> None:
    pods = {"n0": [a_pod("w", "web")], "n2": [a_pod("v", "web")]}
    second = a_pod(app="web", **near(term(ZONE, WEB)))
    assert verdicts(second, pods, frozenset({"uid-w"})) == [ALONE, ALONE, None, ALONE]
    assert verdicts(second, pods, frozenset({"uid-w", "uid-v"})) == [None, None, None, ALONE]


def test_a_pod_that_does_not_match_its_own_affinity_is_not_the_first_of_a_group() -> None:
    assert verdicts(a_pod(app="db", **near(term(ZONE, WEB)))) == [ALONE] * 4
    both = near(term(ZONE, WEB), term(ZONE, DB))
    assert verdicts(a_pod(app="web", **both)) == [ALONE] * 4


def test_pods_in_another_namespace_do_not_belong_to_the_group() -> None:
    wants_others = near(term(ZONE, WEB, namespaces=[OTHER]))
    assert verdicts(a_pod(app="web", **wants_others)) == [ALONE] * 4
    theirs = {"n0": [a_pod("w", "web", OTHER)]}
    assert verdicts(a_pod(app="web", **wants_others), theirs) == [None, None, ALONE, ALONE]
    assert verdicts(a_pod(app="web", **near(term(ZONE, WEB))), theirs) == [None, None, None, ALONE]


def test_a_leaving_pod_does_not_satisfy_affinity() -> None:
    pods = {"n0": [a_pod("w", "web")]}
    assert verdicts(a_pod(**near(term(ZONE, WEB))), pods, frozenset({"uid-w"})) == [ALONE] * 4
    assert verdicts(a_pod(**near(term(ZONE, WEB))), pods, frozenset({"uid-x"})) == [None, None, ALONE, ALONE]


# --- anti-affinity -----------------------------------------------------------------------------------
def test_a_pod_does_not_go_to_the_domain_of_a_pod_that_its_anti_affinity_matches() -> None:
    pods = {"n1": [a_pod("w", "web")]}
    assert verdicts(a_pod(**far(term(ZONE, WEB))), pods) == [REPELLED, REPELLED, None, None]
    assert verdicts(a_pod(**far(term(HOST, WEB))), pods) == [None, REPELLED, None, None]


def test_one_matching_anti_affinity_term_is_enough_to_reject() -> None:
    pods = {"n0": [a_pod("w", "web")], "n2": [a_pod("d", "db")]}
    assert verdicts(a_pod(**far(term(HOST, DB), term(HOST, WEB))), pods) == [REPELLED, None, REPELLED, None]


def test_a_pod_counts_only_for_the_terms_that_match_it() -> None:
    pods = {"n1": [a_pod("w", "web")]}
    assert verdicts(a_pod(**far(term(ZONE, DB), term(HOST, WEB))), pods) == [None, REPELLED, None, None]


def test_both_of_two_pods_that_the_anti_affinity_matches_must_leave() -> None:
    pods = {"n0": [a_pod("w", "web"), a_pod("v", "web")]}
    pod = a_pod(**far(term(HOST, WEB)))
    assert verdicts(pod, pods, frozenset({"uid-w"}))[0] == REPELLED
    assert verdicts(pod, pods, frozenset({"uid-w", "uid-v"}))[0] is None


def test_anti_affinity_applies_to_the_pod_s_own_namespace_unless_others_are_given() -> None:
    theirs = {"n0": [a_pod("w", "web", OTHER)]}
    assert verdicts(a_pod(**far(term(HOST, WEB))), theirs)[0] is None
    assert (
        verdicts(a_pod(**far(term(HOST, WEB, namespaceSelector=selector(tier="tin")))), theirs)[0] == REPELLED
    )
    assert verdicts(a_pod(**far(term(HOST, WEB, namespaceSelector=selector(tier="gold")))), theirs)[0] is None


# --- anti-affinity of other pods ---------------------------------------------------------------------
def test_a_pod_does_not_go_where_another_pod_s_anti_affinity_matches_it() -> None:
    pods = {"n1": [a_pod("shy", **far(term(ZONE, GPU)))]}
    assert verdicts(a_pod(app="gpu"), pods) == [UNWANTED, UNWANTED, None, None]
    assert verdicts(a_pod(app="web"), pods) == [None] * 4


def test_one_matching_term_of_the_other_pod_is_enough_and_only_that_one_counts() -> None:
    pods = {"n1": [a_pod("shy", **far(term(HOST, GPU), term(ZONE, WEB)))]}
    assert verdicts(a_pod(app="gpu"), pods) == [None, UNWANTED, None, None]
    assert verdicts(a_pod(app="web"), pods) == [UNWANTED, UNWANTED, None, None]


def test_a_pod_without_labels_is_matched_only_by_anti_affinity_to_every_pod() -> None:
    plain = pod_of({"metadata": {"name": "new", "namespace": TEAM}, "spec": {}})
    assert plain.metadata.labels is None
    assert verdicts(plain, {"n0": [a_pod("shy", **far(term(HOST, GPU)))]})[0] is None
    assert verdicts(plain, {"n0": [a_pod("hermit", **far(term(HOST, {})))]})[0] == UNWANTED


def test_the_anti_affinity_of_a_leaving_pod_does_not_count() -> None:
    pods = {"n1": [a_pod("shy", **far(term(ZONE, GPU)))]}
    assert verdicts(a_pod(app="gpu"), pods, frozenset({"uid-shy"})) == [None] * 4


def test_anti_affinity_of_other_pods_selects_the_pod_s_namespace_by_name_or_label() -> None:
    by_label = {
        "n0": [a_pod("shy", "", OTHER, **far(term(HOST, GPU, namespaceSelector=selector(tier="gold"))))]
    }
    by_name = {"n0": [a_pod("shy", "", OTHER, **far(term(HOST, GPU, namespaces=[TEAM])))]}
    own = {"n0": [a_pod("shy", "", OTHER, **far(term(HOST, GPU)))]}
    assert [verdicts(a_pod(app="gpu"), pods)[0] for pods in (by_label, by_name, own)] == [
        UNWANTED,
        UNWANTED,
        None,
    ]
    assert verdicts(a_pod(app="gpu", namespace="unknown"), by_label)[0] is None


def test_anti_affinity_of_a_pod_on_a_node_without_the_topology_label_does_not_count() -> None:
    pods = {"bare": [a_pod("shy", **far(term(ZONE, GPU)))]}
    assert verdicts(a_pod(app="gpu"), pods) == [None] * 4


# --- several of these at once ------------------------------------------------------------------------
def test_affinity_is_reported_before_anti_affinity_and_that_before_other_pods_anti_affinity() -> None:
    pods = {"n0": [a_pod("w", "web"), a_pod("shy", **far(term(ZONE, GPU)))]}
    not_wanted = a_pod(app="gpu", **near(term(ZONE, DB)), **far(term(ZONE, WEB)))
    assert verdicts(not_wanted, pods) == [ALONE] * 4
    assert verdicts(a_pod(app="gpu", **far(term(ZONE, WEB))), pods) == [REPELLED, REPELLED, None, None]


def test_a_pod_may_have_affinity_and_anti_affinity_at_once() -> None:
    pods = {"n0": [a_pod("w", "web")], "n1": [a_pod("d", "db")]}
    pod = a_pod(**near(term(ZONE, WEB)), **far(term(HOST, DB)))
    assert verdicts(pod, pods) == [None, REPELLED, ALONE, ALONE]
