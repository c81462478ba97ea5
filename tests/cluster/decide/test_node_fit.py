"""A node suits a pod as kube-scheduler's own plugins say: readiness, taints, selectors, affinity."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.decide.node_fit import CORDONED, NOT_READY, NOT_SELECTED, TAINTED, TOO_BIG, node_rejection
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod

Json = dict[str, Any]

GPU_TAINT = {"key": names.GPU_RESOURCE, "value": "present", "effect": "NoSchedule"}


def a_pod(**spec: Any) -> Pod:
    return msgspec.convert({"spec": spec}, Pod)


def a_node(*, labels: dict[str, str] | None = None, ready: str | None = "True", **spec: Any) -> Node:
    conditions = [{"type": "MemoryPressure", "status": "False"}]
    if ready:
        conditions.append({"type": "Ready", "status": ready})
    meta = {"name": "n0", "labels": labels or {}}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"conditions": conditions}}, Node)


def by_affinity(*terms: Json) -> Pod:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return a_pod(affinity={"nodeAffinity": required})


def labelled(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def named(operator: str, *values: str, key: str = "metadata.name") -> Json:
    return {"matchFields": [{"key": key, "operator": operator, "values": list(values)}]}


def test_a_plain_pod_fits_a_plain_node() -> None:
    assert node_rejection(a_pod(), a_node()) is None


@pytest.mark.parametrize(("ready", "reason"), [("False", NOT_READY), ("Unknown", NOT_READY), (None, None)])
def test_a_node_must_not_be_unready(ready: str | None, reason: str | None) -> None:
    assert node_rejection(a_pod(), a_node(ready=ready)) == reason


def test_a_cordoned_node_takes_only_pods_that_tolerate_it() -> None:
    node = a_node(unschedulable=True)
    assert node_rejection(a_pod(), node) == CORDONED
    tolerant = a_pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])
    assert node_rejection(tolerant, node) is None


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": names.GPU_RESOURCE, "operator": "Exists"}, True),
        ({"key": names.GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": names.GPU_RESOURCE, "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": names.GPU_RESOURCE, "operator": "Equal", "value": "present"}, True),
        ({"key": names.GPU_RESOURCE, "value": "present"}, True),
        ({"key": names.GPU_RESOURCE, "value": "absent"}, False),
        ({"key": names.GPU_RESOURCE}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": names.GPU_RESOURCE, "operator": "Gt", "value": "1"}, False),
    ],
)
def test_a_taint_rejects_pods_that_do_not_tolerate_it(toleration: Json, *, tolerated: bool) -> None:
    node = a_node(taints=[GPU_TAINT])
    assert node_rejection(a_pod(), node) == TAINTED
    assert node_rejection(a_pod(tolerations=[toleration]), node) == (None if tolerated else TAINTED)


def test_every_taint_but_prefer_no_schedule_needs_its_toleration() -> None:
    evicting = {"key": "maintenance", "effect": "NoExecute"}
    preference = {"key": "quiet", "effect": "PreferNoSchedule"}
    node = a_node(taints=[GPU_TAINT, evicting, preference])
    one = {"key": names.GPU_RESOURCE, "operator": "Exists"}
    assert node_rejection(a_pod(tolerations=[one]), node) == TAINTED
    both = [one, {"key": "maintenance", "operator": "Equal", "value": ""}]
    assert node_rejection(a_pod(tolerations=both), node) is None


def test_every_label_of_the_node_selector_must_be_there() -> None:
    node = a_node(labels={"zone": "a", "disk": "ssd"})
    assert node_rejection(a_pod(nodeSelector={"zone": "a", "disk": "ssd"}), node) is None
    assert node_rejection(a_pod(nodeSelector={"zone": "a", "disk": "hdd"}), node) == NOT_SELECTED
    assert node_rejection(a_pod(nodeSelector={"rack": ""}), node) == NOT_SELECTED


@pytest.mark.parametrize(
    ("term", "matches"),
    [
        (labelled("zone", "In", "a", "b"), True),
        (labelled("zone", "In", "b"), False),
        (labelled("rack", "In", "a"), False),
        (labelled("zone", "NotIn", "b"), True),
        (labelled("zone", "NotIn", "a"), False),
        (labelled("rack", "NotIn", "a"), True),
        (labelled("zone", "Exists"), True),
        (labelled("rack", "Exists"), False),
        (labelled("zone", "DoesNotExist"), False),
        (labelled("rack", "DoesNotExist"), True),
        (labelled("cores", "Gt", "63"), True),
        (labelled("cores", "Gt", "64"), False),
        (labelled("cores", "Lt", "65"), True),
        (labelled("cores", "Lt", "64"), False),
        (labelled("zone", "Gt", "1"), False),
        (labelled("rack", "Lt", "1"), False),
        (labelled("cores", "Gt"), False),
        (labelled("cores", "Gt", "1", "2"), False),
        (labelled("zone", "Resembles", "a"), False),
        (named("In", "n0"), True),
        (named("In", "n1"), False),
        (named("NotIn", "n1"), True),
        (named("NotIn", "n0"), False),
        (named("In", "n0", key="spec.providerID"), False),
        ({}, False),
    ],
)
def test_a_term_of_the_required_affinity_is_matched_as_by_kubernetes(term: Json, *, matches: bool) -> None:
    node = a_node(labels={"zone": "a", "cores": "64"})
    assert node_rejection(by_affinity(term), node) == (None if matches else NOT_SELECTED)


def test_without_any_term_nothing_matches() -> None:
    assert node_rejection(by_affinity(), a_node()) == NOT_SELECTED


def test_a_preferred_affinity_does_not_reject_a_node() -> None:
    affinity: Json = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    assert node_rejection(a_pod(affinity=affinity), a_node()) is None


def test_selector_and_affinity_must_both_hold() -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [named("In", "n0")]}}
    pod = a_pod(affinity={"nodeAffinity": required}, nodeSelector={"zone": "a"})
    assert node_rejection(pod, a_node(labels={"zone": "a"})) is None
    assert node_rejection(pod, a_node()) == NOT_SELECTED


TRUE, FALSE = labelled("zone", "Exists"), labelled("zone", "DoesNotExist")


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=3), min_size=1, max_size=3))
def test_one_term_is_enough_and_all_of_its_expressions_must_hold(terms: list[list[bool]]) -> None:
    written = [
        {"matchExpressions": [e for holds in term for e in (TRUE if holds else FALSE)["matchExpressions"]]}
        for term in terms
    ]
    expected = None if any(all(term) for term in terms) else NOT_SELECTED
    assert node_rejection(by_affinity(*written), a_node(labels={"zone": "a"})) == expected


def test_an_expression_and_a_field_of_one_term_must_both_hold() -> None:
    node = a_node(labels={"zone": "a"})
    assert node_rejection(by_affinity({**TRUE, **named("In", "n0")}), node) is None
    assert node_rejection(by_affinity({**FALSE, **named("In", "n0")}), node) == NOT_SELECTED
    assert node_rejection(by_affinity({**TRUE, **named("In", "n1")}), node) == NOT_SELECTED


def asking(**amounts: str) -> Json:
    return {"resources": {"requests": {names.GPU_RESOURCE: "1", **amounts}}}


SMALL = asking(cpu="1500m", memory="3Gi")
HAS = {"cpu": "4", "memory": "8Gi"}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param({"containers": [SMALL, SMALL]}, None, id="fits"),
        pytest.param({"containers": [asking(cpu="4")]}, None, id="fits exactly"),
        pytest.param({"containers": [SMALL, SMALL, SMALL]}, TOO_BIG, id="too much together"),
        pytest.param({"containers": [asking(cpu="4001m")]}, TOO_BIG, id="too much CPU"),
        pytest.param({"containers": [asking(memory="8193Mi")]}, TOO_BIG, id="too much memory"),
        pytest.param({"containers": [SMALL], "initContainers": [asking(cpu="3")]}, None, id="init alone"),
        pytest.param({"containers": [SMALL], "initContainers": [asking(cpu="5")]}, TOO_BIG, id="large init"),
        pytest.param(
            {"containers": [SMALL], "initContainers": [{**asking(cpu="3"), "restartPolicy": "Always"}]},
            TOO_BIG,
            id="sidecar running along",
        ),
        pytest.param({"containers": [asking(cpu="4")], "overhead": {"cpu": "1m"}}, TOO_BIG, id="overhead"),
        pytest.param(
            {"containers": [asking(hugepages="9")]}, None, id="a resource that the node does not list"
        ),
        pytest.param({"containers": [asking(cpu="lots")]}, None, id="an unreadable amount"),
    ],
)
def test_a_pod_must_fit_on_the_empty_node(spec: Json, reason: str | None) -> None:
    node = msgspec.convert({"metadata": {"name": "n0"}, "status": {"allocatable": HAS}}, Node)
    assert node_rejection(a_pod(**spec), node) == reason
