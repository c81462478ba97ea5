"""Where a pod may be so that the pods that its constraints select stay spread over topology domains."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest

from cluster.decide.scheduler_filters import ClusterObjects, node_pods_of, other_of
from cluster.decide.scheduler_filters.pod_topology_spread import NO_DOMAIN, UNEVEN, Spread
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from tests.cluster.decide.scheduler_filters import cases
from tests.cluster.decide.scheduler_filters.cases import HOST, OTHER, TEAM, ZONE, selector
from tests.cluster.decide.scheduler_filters.world import pod_of

WEB = selector(app="web")
NODES: dict[str, dict[str, str]] = {
    "n0": {HOST: "n0", ZONE: "a"},
    "n1": {HOST: "n1", ZONE: "a"},
    "n2": {HOST: "n2", ZONE: "b"},
    "bare": {HOST: "bare"},
}
"""Two nodes in one zone, one in another, one in none."""


def over(key: str = ZONE, chosen: cases.Json | None = WEB, **more: Any) -> cases.Json:
    """A constraint; one pod more than in the emptiest domain is allowed, unless said otherwise."""
    written = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **more}
    return written if chosen is None else {**written, "labelSelector": chosen}


def a_pod(*constraints: cases.Json, labels: Mapping[str, str] | None = None, **spec: Any) -> Pod:
    pod_labels = dict({"app": "web"} if labels is None else labels)
    return pod_of(cases.a_pod("new", TEAM, pod_labels, topologySpreadConstraints=list(constraints), **spec))


def webs(count: int, node: str = "n", namespace: str = TEAM, **labels: str) -> list[Pod]:
    body = {"app": "web", **labels}
    return [pod_of(cases.a_pod(f"web-{node}-{index}", namespace, body)) for index in range(count)]


def cluster_objects(
    pods: Mapping[str, Iterable[Pod]], taints: Mapping[str, list[cases.Json]]
) -> ClusterObjects:
    nodes = {
        name: msgspec.convert(
            {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints.get(name, [])}}, Node
        )
        for name, labels in NODES.items()
    }
    node_pods = {
        node: node_pods_of(other for pod in there if (other := other_of(pod))) for node, there in pods.items()
    }
    return ClusterObjects(nodes=nodes, node_pods=node_pods)


def verdicts(
    pod: Pod,
    pods: Mapping[str, Iterable[Pod]] | None = None,
    without: Iterable[str] = (),
    taints: Mapping[str, list[cases.Json]] | None = None,
) -> list[str | None]:
    """The verdict on each of the nodes."""
    there = cluster_objects(pods or {}, taints or {})
    spread = Spread(pod, there)
    return [spread.rejection(node, frozenset(without)) for node in there.nodes.values()]


# --- which constraints must hold ---------------------------------------------------------------------
@pytest.mark.parametrize(
    ("constraints", "is_needed"),
    [([], False), ([over(whenUnsatisfiable="ScheduleAnyway")], False), ([over()], True)],
    ids=["none", "one that is only preferred", "one that must hold"],
)
def test_only_constraints_that_must_hold_are_checked(
    constraints: list[cases.Json], *, is_needed: bool
) -> None:
    pod = a_pod(*constraints)
    assert bool(Spread(pod, cluster_objects({}, {}))) == is_needed
    crowded = {"n0": webs(9)}
    assert (UNEVEN in verdicts(pod, crowded)) == is_needed


def test_a_node_without_the_topology_label_is_rejected() -> None:
    assert verdicts(a_pod(over())) == [None, None, None, NO_DOMAIN]


# --- how uneven is too uneven ------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("in_a", "in_b", "skew", "a", "b"),
    [
        (0, 0, 1, None, None),
        (1, 0, 1, UNEVEN, None),
        (1, 1, 1, None, None),
        (1, 0, 2, None, None),
        (2, 0, 2, UNEVEN, None),
        (3, 1, 2, UNEVEN, None),
        (2, 1, 2, None, None),
    ],
)
def test_a_domain_with_the_pod_may_exceed_the_emptiest_one_by_max_skew(
    in_a: int, in_b: int, skew: int, a: str | None, b: str | None
) -> None:
    pods = {"n1": webs(in_a, "n1"), "n2": webs(in_b, "n2")}
    assert verdicts(a_pod(over(maxSkew=skew)), pods)[:3] == [a, a, b]


def test_all_nodes_of_a_domain_count_together() -> None:
    pods = {"n0": webs(1, "n0"), "n1": webs(1, "n1"), "n2": webs(1, "n2")}
    assert verdicts(a_pod(over()), pods)[:3] == [UNEVEN, UNEVEN, None]
    assert verdicts(a_pod(over(HOST)), pods) == [UNEVEN, UNEVEN, UNEVEN, None]


def test_a_pod_that_the_selector_does_not_match_is_not_counted_itself() -> None:
    other = a_pod(over(), labels={"app": "db"})
    assert verdicts(other, {"n0": webs(1)})[:3] == [None, None, None]
    assert verdicts(other, {"n0": webs(2)})[:3] == [UNEVEN, UNEVEN, None]


def test_pods_of_other_namespaces_or_without_a_match_are_not_counted() -> None:
    assert verdicts(a_pod(over()), {"n0": webs(5, namespace=OTHER)})[0] is None
    assert verdicts(a_pod(over()), {"n0": webs(5, app="db")})[0] is None


def test_pods_that_leave_are_not_counted() -> None:
    pods = {"n0": webs(2, "n0"), "n2": webs(1, "n2")}
    leaving = ["uid-web-n0-0"]
    assert verdicts(a_pod(over()), pods)[0] == UNEVEN
    assert verdicts(a_pod(over()), pods, leaving)[0] is None
    assert verdicts(a_pod(over()), pods, [*leaving, "uid-web-n2-0"])[0] == UNEVEN


@pytest.mark.parametrize("chosen", [{}, None], ids=["that selects everything", "that is missing"])
def test_an_empty_or_missing_selector_counts_no_other_pods(chosen: cases.Json | None) -> None:
    assert verdicts(a_pod(over(chosen=chosen)), {"n0": webs(5)})[:3] == [None, None, None]


# --- domains that do not exist yet -------------------------------------------------------------------
@pytest.mark.parametrize(("domains", "reason"), [(None, None), (1, None), (2, None), (3, UNEVEN)])
def test_the_minimum_is_zero_with_fewer_domains_than_min_domains(
    domains: int | None, reason: str | None
) -> None:
    pods = {"n0": webs(1, "n0"), "n2": webs(1, "n2")}
    assert verdicts(a_pod(over(minDomains=domains)), pods)[:3] == [reason] * 3


# --- which nodes take part ---------------------------------------------------------------------------
@pytest.mark.parametrize(("policy", "reason"), [(None, None), ("Honor", None), ("Ignore", UNEVEN)])
def test_a_domain_that_the_pod_s_node_selector_excludes_counts_only_under_policy_ignore(
    policy: str | None, reason: str | None
) -> None:
    pod = a_pod(over(nodeAffinityPolicy=policy), nodeSelector={ZONE: "a"})
    assert verdicts(pod, {"n0": webs(1)})[0] == reason


@pytest.mark.parametrize(("policy", "reason"), [(None, UNEVEN), ("Ignore", UNEVEN), ("Honor", None)])
def test_a_domain_with_untolerated_taints_counts_unless_taints_are_honoured(
    policy: str | None, reason: str | None
) -> None:
    tainted = {"n2": [{"key": "dedicated", "effect": "NoSchedule"}]}
    pod = a_pod(over(nodeTaintsPolicy=policy))
    assert verdicts(pod, {"n0": webs(1)}, taints=tainted)[0] == reason
    tolerant = a_pod(over(nodeTaintsPolicy=policy), tolerations=[{"operator": "Exists"}])
    assert verdicts(tolerant, {"n0": webs(1)}, taints=tainted)[0] == UNEVEN


def test_pods_count_only_on_nodes_that_take_part() -> None:
    pods = {"n1": webs(3, "n1")}
    pod = a_pod(over(), nodeSelector={HOST: "n0"})
    assert verdicts(pod, pods)[0] is None


def test_a_node_that_lacks_the_label_of_one_constraint_counts_for_none() -> None:
    pods = {"bare": webs(1, "bare"), "n0": webs(1, "n0"), "n1": webs(1, "n1"), "n2": webs(2, "n2")}
    assert verdicts(a_pod(over(HOST)), pods)[0] is None
    emptied = {**pods, "bare": []}
    assert verdicts(a_pod(over(HOST)), emptied)[0] == UNEVEN
    assert verdicts(a_pod(over(HOST), over(ZONE)), emptied)[0] is None


# --- several constraints, and keys to match ----------------------------------------------------------
def test_each_constraint_must_hold() -> None:
    pods = {"n0": webs(1, "n0"), "n2": webs(1, "n2")}
    assert verdicts(a_pod(over(ZONE), over(HOST)), pods) == [UNEVEN, None, UNEVEN, NO_DOMAIN]


def test_match_label_keys_narrow_the_selector() -> None:
    pods = {"n0": webs(1, "n0", rev="1")}
    of_old, of_new = ({"app": "web", "rev": rev} for rev in ("1", "2"))
    by_revision = over(matchLabelKeys=["rev"])
    assert verdicts(a_pod(by_revision, labels=of_old), pods)[0] == UNEVEN
    assert verdicts(a_pod(by_revision, labels=of_new), pods)[0] is None
    assert verdicts(a_pod(by_revision), pods)[0] == UNEVEN, "a label that the pod lacks narrows nothing"
    assert verdicts(a_pod(over(), labels=of_new), pods)[0] == UNEVEN


def test_a_narrowed_selector_keeps_its_labels_and_its_expressions() -> None:
    exists = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}
    constraint = over(chosen=exists, matchLabelKeys=["rev"])
    pod = a_pod(constraint, labels={"app": "web", "rev": "1", "tier": "x"})
    assert verdicts(pod, {"n0": webs(1, rev="1", tier="y")})[0] == UNEVEN
    assert verdicts(pod, {"n0": webs(1, rev="1")})[0] is None
    assert verdicts(pod, {"n0": webs(1, rev="1", tier="y", app="db")})[0] is None


def test_without_a_selector_there_is_nothing_to_narrow() -> None:
    pod = a_pod(over(chosen=None, matchLabelKeys=["app"]))
    assert verdicts(pod, {"n0": webs(5)})[:3] == [None, None, None]


# --- what is missing ---------------------------------------------------------------------------------
def _node(name: str, labels: dict[str, str] | None) -> Node:
    return msgspec.convert({"metadata": {"name": name, "labels": labels}}, Node)


def test_a_pod_without_constraints_may_be_anywhere() -> None:
    plain = pod_of({"metadata": {"name": "new", "namespace": TEAM}, "spec": {}})
    assert plain.spec.topology_spread_constraints is None
    assert verdicts(plain, {"n0": webs(9)}) == [None] * 4


def test_a_pod_without_labels_matches_no_selector_and_narrows_none() -> None:
    written = {"topologySpreadConstraints": [over(matchLabelKeys=["rev"])]}
    plain = pod_of({"metadata": {"name": "new", "namespace": TEAM}, "spec": written})
    assert plain.metadata.labels is None
    assert verdicts(plain, {"n0": webs(1)})[0] is None
    assert verdicts(plain, {"n0": webs(2)})[0] == UNEVEN


def test_a_node_without_labels_has_no_domain_and_does_not_hide_later_nodes() -> None:
    first, second, third = _node("first", None), _node("second", {ZONE: "a"}), _node("third", {ZONE: "b"})
    on_node = node_pods_of(other for pod in webs(1) if (other := other_of(pod)))
    there = ClusterObjects(
        nodes={"first": first, "second": second, "third": third}, node_pods={"second": on_node}
    )
    spread = Spread(a_pod(over()), there)
    assert [spread.rejection(node, frozenset()) for node in (first, second, third)] == [
        NO_DOMAIN,
        UNEVEN,
        None,
    ]


def test_a_node_that_takes_no_part_for_one_constraint_still_does_for_the_next() -> None:
    ignoring = over(HOST, nodeAffinityPolicy="Ignore")
    pod = a_pod(over(ZONE), ignoring, nodeSelector={HOST: "n0"})
    assert verdicts(pod, {"n0": webs(1, "n0")})[0] == UNEVEN


def test_a_selector_of_expressions_alone_is_narrowed_too() -> None:
    written = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    pod = a_pod(over(chosen=written, matchLabelKeys=["rev"]), labels={"app": "web", "rev": "1"})
    assert verdicts(pod, {"n0": webs(1, rev="1")})[0] == UNEVEN
    assert verdicts(pod, {"n0": webs(1, rev="2")})[0] is None
