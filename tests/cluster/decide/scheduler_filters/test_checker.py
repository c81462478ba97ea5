"""All checks of one pod together: which is reported first, and what is computed once for many pods."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from cluster.decide.node_fit import CORDONED, NOT_SELECTED, TAINTED, TOO_BIG
from cluster.decide.scheduler_filters import ClusterObjects, checker_for, node_pods_of, other_of
from cluster.decide.scheduler_filters.inter_pod_affinity import ALONE, REPELLED
from cluster.decide.scheduler_filters.node_ports import TAKEN
from cluster.decide.scheduler_filters.node_resources_fit import CROWDED, FULL
from cluster.decide.scheduler_filters.pod_topology_spread import UNEVEN
from cluster.decide.scheduler_filters.volume_binding import NO_CLAIM
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from tests.cluster.decide.scheduler_filters import cases
from tests.cluster.decide.scheduler_filters.cases import (
    ZONE,
    container,
    mount,
    port,
    required,
    selector,
    term,
)
from tests.cluster.decide.scheduler_filters.world import pod_of

TAINT = {"key": "dedicated", "effect": "NoSchedule"}
TOLERANT: dict[str, Any] = {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}


def a_node(name: str = "n0", cpu: str = "4", pods: str = "10", **spec: Any) -> Node:
    has = {"cpu": cpu, "pods": pods}
    body = {"metadata": {"name": name, "labels": {ZONE: "a"}}, "spec": spec, "status": {"allocatable": has}}
    return msgspec.convert(body, Node)


def a_pod(name: str = "new", **spec: Any) -> Pod:
    return pod_of(cases.a_pod(name, labels={"app": "web"}, **spec))


def sized(cpu: str, **more: Any) -> dict[str, Any]:
    return {"containers": [container(amounts={"cpu": cpu}, **more)]}


def cluster_objects(*nodes: Node, pods: Iterable[Pod] = ()) -> ClusterObjects:
    """Nodes, and pods on the first of them."""
    on_node = node_pods_of(other for pod in pods if (other := other_of(pod)))
    first = nodes[0].metadata.name
    return ClusterObjects(nodes={node.metadata.name: node for node in nodes}, node_pods={first: on_node})


def why(pod: Pod, node: Node, *pods: Pod, without: Iterable[str] = ()) -> str | None:
    return checker_for(pod, cluster_objects(node, pods=pods)).why_not(node, without=frozenset(without))


# --- one check after the other -----------------------------------------------------------------------
def test_a_pod_that_no_check_rejects_would_be_placed() -> None:
    assert why(a_pod(**sized("4", ports=[port(80)])), a_node()) is None


_HINDRANCES: dict[str, tuple[dict[str, Any], str]] = {
    "volume": ({"volumes": [mount("never-made")]}, NO_CLAIM),
    "affinity": ({"affinity": required("podAffinity", term(ZONE, selector(app="db")))}, ALONE),
    "spread": (
        {
            "topologySpreadConstraints": [
                {
                    "topologyKey": ZONE,
                    "maxSkew": 1,
                    "minDomains": 2,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": selector(app="web"),
                }
            ]
        },
        UNEVEN,
    ),
}
"""What is checked last, in its order; the node has a pod of the same kind already."""


@pytest.mark.parametrize("kind", _HINDRANCES)
def test_each_condition_that_depends_on_other_objects_is_checked(kind: str) -> None:
    spec, reason = _HINDRANCES[kind]
    assert why(a_pod(**spec), a_node(), a_pod("there")) == reason


@pytest.mark.parametrize(("first", "second"), [("volume", "affinity"), ("affinity", "spread")])
def test_the_first_in_order_of_two_failed_conditions_is_reported(first: str, second: str) -> None:
    both = {**_HINDRANCES[second][0], **_HINDRANCES[first][0]}
    assert why(a_pod(**both), a_node(), a_pod("there")) == _HINDRANCES[first][1]


def test_reasons_of_the_node_itself_are_reported_before_missing_resources() -> None:
    assert why(a_pod(**sized("9")), a_node(unschedulable=True)) == CORDONED
    assert why(a_pod(nodeSelector={"rack": "1"}), a_node(pods="0")) == NOT_SELECTED


def test_missing_resources_are_reported_before_ports_and_ports_before_the_rest() -> None:
    there = a_pod("there", **sized("3", ports=[port(80)]))
    volume = _HINDRANCES["volume"][0]
    assert why(a_pod(**sized("2", ports=[port(80)]), **volume), a_node(), there) == FULL
    assert why(a_pod(**sized("1", ports=[port(80)]), **volume), a_node(), there) == TAKEN
    assert why(a_pod(**sized("1", ports=[port(81)]), **volume), a_node(), there) == NO_CLAIM


# --- too big, or only full ---------------------------------------------------------------------------
@pytest.mark.parametrize(("cpu", "reason"), [("1", None), ("1001m", FULL), ("4", FULL), ("4001m", TOO_BIG)])
def test_a_pod_that_an_empty_node_could_not_take_is_reported_as_too_big(cpu: str, reason: str | None) -> None:
    assert why(a_pod(**sized(cpu)), a_node(), a_pod("there", **sized("3"))) == reason


@pytest.mark.parametrize(("cpu", "reason"), [("1", CROWDED), ("5", TOO_BIG)])
def test_a_node_at_its_maximum_of_pods_is_crowded_to_every_pod_that_is_not_too_big(
    cpu: str, reason: str
) -> None:
    assert why(a_pod(**sized(cpu)), a_node(pods="1"), a_pod("there")) == reason


# --- once some pods are gone -------------------------------------------------------------------------
def test_pods_that_leave_free_their_cpu_their_slot_and_their_port() -> None:
    there = a_pod("there", **sized("4", ports=[port(80)]))
    node, new = a_node(pods="1"), a_pod(**sized("4", ports=[port(80)]))
    assert why(new, node, there) == CROWDED
    assert why(new, node, there, without=["uid-there"]) is None


def test_pods_that_leave_another_node_free_nothing_here() -> None:
    there = a_pod("there", **sized("4"))
    assert why(a_pod(**sized("1")), a_node(), there, without=["uid-elsewhere"]) == FULL


def test_every_condition_takes_account_of_leaving_pods() -> None:
    spread = a_pod(**_HINDRANCES["spread"][0])
    far = a_pod(affinity=required("podAntiAffinity", term(ZONE, selector(app="web"))))
    there = a_pod("there")
    assert [why(pod, a_node(), there) for pod in (spread, far)] == [UNEVEN, REPELLED]
    assert [why(pod, a_node(), there, without=["uid-there"]) for pod in (spread, far)] == [None, None]


def test_one_checker_serves_many_nodes_and_many_sets_of_leaving_pods() -> None:
    full, empty = a_node("n0"), a_node("n1")
    checker = checker_for(
        a_pod(**sized("2")), cluster_objects(full, empty, pods=[a_pod("there", **sized("3"))])
    )
    assert (checker.why_not(full), checker.why_not(empty)) == (FULL, None)
    assert checker.why_not(full, without=frozenset({"uid-there"})) is None
    assert checker.why_not(full) == FULL


# --- what no pod's leaving changes -------------------------------------------------------------------
def test_a_node_that_would_not_take_the_pod_even_empty_is_distinguished_from_a_full_one() -> None:
    tainted, full = a_node("n0", taints=[TAINT]), a_node("n1", cpu="0")
    checker = checker_for(a_pod(**sized("1")), cluster_objects(tainted, full))
    assert (checker.unresolvable_reason(tainted), checker.unresolvable_reason(full)) == (TAINTED, None)
    assert checker.why_not(full) == TOO_BIG


def test_pods_with_equal_requirements_of_nodes_share_their_answers() -> None:
    node = a_node(taints=[TAINT])
    there = cluster_objects(node)
    alike = [
        a_pod("p"),
        a_pod("q", **sized("4")),
        a_pod("r", affinity=required("podAffinity", term(ZONE, selector(app="db")))),
    ]
    assert [checker_for(pod, there).unresolvable_reason(node) for pod in alike] == [TAINTED] * 3
    assert list(there.known.values()) == [{"n0": TAINTED}]


_IN_ZONE = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (TOLERANT, None),
        ({**TOLERANT, "nodeSelector": {ZONE: "b"}}, NOT_SELECTED),
        (
            {
                **TOLERANT,
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_IN_ZONE]}
                    }
                },
            },
            NOT_SELECTED,
        ),
    ],
    ids=["tolerations", "node selector", "node affinity"],
)
def test_pods_with_other_requirements_of_nodes_have_their_own_answers(
    spec: dict[str, Any], reason: str | None
) -> None:
    node = a_node(taints=[TAINT])
    there = cluster_objects(node)
    assert checker_for(a_pod(), there).unresolvable_reason(node) == TAINTED
    assert checker_for(a_pod(**TOLERANT), there).unresolvable_reason(node) is None
    assert checker_for(a_pod(**spec), there).unresolvable_reason(node) == reason


def test_an_answer_is_cached_whether_the_node_would_do_or_not() -> None:
    good, bad = a_node("n0"), a_node("n1", unschedulable=True)
    there = cluster_objects(good, bad)
    checker = checker_for(a_pod(), there)
    assert [checker.unresolvable_reason(good), checker.unresolvable_reason(bad)] == [None, CORDONED]
    changed = [a_node("n0", unschedulable=True), a_node("n1")]
    assert [checker.unresolvable_reason(node) for node in changed] == [None, CORDONED]
    assert [
        checker_for(a_pod(), cluster_objects(*changed)).unresolvable_reason(node) for node in changed
    ] == [
        CORDONED,
        None,
    ]
