"""Where a pod would be placed among the cases; tests/controlplane asks the real scheduler the same."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster import names
from cluster.decide.node_fit import CORDONED, NOT_SELECTED, TAINTED, TOO_BIG
from cluster.decide.scheduler_filters import ClusterObjects, checker_for
from cluster.decide.scheduler_filters.inter_pod_affinity import ALONE, REPELLED, UNWANTED
from cluster.decide.scheduler_filters.node_ports import TAKEN
from cluster.decide.scheduler_filters.node_resources_fit import CROWDED, FULL
from cluster.decide.scheduler_filters.pod_topology_spread import NO_DOMAIN, UNEVEN
from cluster.decide.scheduler_filters.volume_binding import (
    ELSEWHERE,
    IN_USE,
    LOST,
    NO_CLAIM,
    NO_VOLUME,
    NONE_TO_BIND,
    UNBOUND,
)
from cluster.objects.pods import Pod
from tests.cluster.decide.scheduler_filters import cases
from tests.cluster.decide.scheduler_filters.cases import (
    HOST,
    RACK,
    ZONE,
    a_pod,
    container,
    mount,
    port,
    required,
    term,
)
from tests.cluster.decide.scheduler_filters.world import GHOSTS, NODES, RESIDENTS, pod_of, the_world

EVERYWHERE = [{"operator": "Exists"}]
WEB, DB, LONE = (cases.selector(app=app) for app in ("web", "db", "lone"))


def asking(labels: dict[str, str] | None = None, namespace: str = cases.TEAM, **spec: Any) -> Pod:
    return pod_of(a_pod("new", namespace, labels, **{"tolerations": EVERYWHERE, **spec}))


def verdicts(
    pod: Pod, cluster_objects: ClusterObjects, without: frozenset[str] = frozenset()
) -> dict[str, str | None]:
    checker = checker_for(pod, cluster_objects)
    return {name: checker.why_not(node, without=without) for name, node in cluster_objects.nodes.items()}


def spread(key: str, chosen: cases.Json, **more: Any) -> list[cases.Json]:
    return [
        {
            "topologyKey": key,
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": chosen,
            **more,
        }
    ]


def sized(**amounts: str) -> list[cases.Json]:
    return [container(amounts=amounts)]


def case(node: str, reason: str | None, *, labels: dict[str, str] | None = None, **spec: Any) -> Any:
    return pytest.param(node, reason, labels or {}, spec)


NEAR_NOBODY = required("podAffinity", term(ZONE, cases.selector(app="nobody")))


@pytest.mark.parametrize(
    ("node", "reason", "labels", "spec"),
    [
        # The node, whatever runs there.
        case("n0", None),
        case("n4", TAINTED, tolerations=[]),
        case("n4", None, tolerations=[{"key": "dedicated", "value": "team"}]),
        case("n1", None, tolerations=[]),
        case("n5", CORDONED, tolerations=[]),
        case("n2", NOT_SELECTED, nodeSelector={RACK: "2"}),
        # What is free of it: n0 has 4 cores, 2.5 of which are taken.
        case("n0", None, containers=sized(cpu="1500m")),
        case("n0", FULL, containers=sized(cpu="1501m")),
        case("n0", TOO_BIG, containers=sized(cpu="4001m")),
        case("n2", FULL, containers=sized(memory="3073Mi")),
        case("n0", None, containers=sized(**{cases.WIDGET: "1"})),
        case("n0", FULL, containers=sized(**{cases.WIDGET: "2"})),
        case("n2", FULL, containers=sized(**{cases.WIDGET: "1"})),
        case("n2", None, containers=sized(**{names.GPU_RESOURCE: "8"})),
        # n1: the pod's own resources replace its containers'.
        case("n1", FULL, containers=sized(cpu="1501m")),
        # n3: side 0.5 + prepare 3 is more than 1 + 0.5.
        case("n3", None, containers=sized(cpu="500m")),
        case("n3", FULL, containers=sized(cpu="501m")),
        case("n0", FULL, initContainers=[container("i", {"cpu": "2"})]),
        case("n0", None, containers=sized(cpu="1"), overhead={"cpu": "500m"}),
        case("n0", FULL, containers=sized(cpu="1"), overhead={"cpu": "501m"}),
        case("n7", CROWDED),
        # Ports of the host.
        case("n1", TAKEN, containers=[container(ports=[port(8080)])]),
        case("n1", TAKEN, containers=[container(ports=[port(8080, hostIP="10.0.0.1")])]),
        case("n1", None, containers=[container(ports=[port(8080, protocol="UDP")])]),
        case("n2", TAKEN, containers=[container(ports=[port(8080)])]),
        case("n2", None, containers=[container(ports=[port(8080, hostIP="10.0.0.1")])]),
        case("n3", TAKEN, containers=[container(ports=[port(9000, protocol="UDP")])]),
        # Volumes.
        case("n0", None, volumes=[mount("in-a")]),
        case("n2", ELSEWHERE, volumes=[mount("in-a")]),
        case("n0", ELSEWHERE, volumes=[mount("labelled")]),
        case("n2", None, volumes=[mount("labelled")]),
        case("n0", IN_USE, volumes=[mount("exclusive")]),
        case("n0", None, volumes=[mount("alone")]),
        case("n0", NO_VOLUME, volumes=[mount("dangling")]),
        case("n0", LOST, volumes=[mount("lost")]),
        case("n0", UNBOUND, volumes=[mount("unbound")]),
        case("n0", UNBOUND, volumes=[mount("classless")]),
        case("n0", NO_CLAIM, volumes=[mount(cases.UNKNOWN_CLAIM)]),
        case("n0", NO_CLAIM, volumes=[{"name": "scratch", "ephemeral": {}}]),
        case("n0", None, volumes=[mount("to-be-made")]),
        case("n0", NONE_TO_BIND, volumes=[mount("to-be-made-in-b")]),
        case("n2", None, volumes=[mount("to-be-made-in-b")]),
        case("n1", None, volumes=[mount("disk")]),
        case("n2", NONE_TO_BIND, volumes=[mount("disk")]),
        case("n1", NONE_TO_BIND, volumes=[mount("big-disk")]),
        case("n3", None, volumes=[mount("big-disk")]),
        case("n3", NONE_TO_BIND, volumes=[mount("big-disk"), mount("disk")]),
        # Pods near and far.
        case("n1", None, affinity=required("podAffinity", term(ZONE, DB))),
        case("n4", ALONE, affinity=required("podAffinity", term(ZONE, DB))),
        case("n5", ALONE, affinity=required("podAffinity", term(ZONE, DB))),
        case("n1", ALONE, affinity=required("podAffinity", term(HOST, DB))),
        case("n2", ALONE, affinity=NEAR_NOBODY),
        case("n2", None, labels={"app": "nobody"}, affinity=NEAR_NOBODY),
        case("n5", ALONE, labels={"app": "nobody"}, affinity=NEAR_NOBODY),
        case("n1", ALONE, labels={"app": "db"}, affinity=required("podAffinity", term(HOST, DB))),
        case("n1", REPELLED, affinity=required("podAntiAffinity", term(ZONE, WEB))),
        case("n2", None, affinity=required("podAntiAffinity", term(ZONE, WEB))),
        case("n2", REPELLED, affinity=required("podAntiAffinity", term(ZONE, WEB, namespaceSelector={}))),
        case("n2", REPELLED, affinity=required("podAntiAffinity", term(ZONE, WEB, namespaces=[cases.OTHER]))),
        case("n2", UNWANTED, labels={"app": "db"}),
        case("n4", UNWANTED, labels={"loud": "yes"}),
        case("n3", UNWANTED, labels={"app": "web"}),
        # Spread: the zones a, b, c, d have 3, 0, 0, 0 of the team's web pods.
        case("n0", UNEVEN, labels={"app": "web"}, topologySpreadConstraints=spread(ZONE, WEB)),
        case("n2", None, labels={"app": "web"}, topologySpreadConstraints=spread(ZONE, WEB)),
        case("n0", UNEVEN, topologySpreadConstraints=spread(ZONE, WEB)),
        case("n5", NO_DOMAIN, labels={"app": "web"}, topologySpreadConstraints=spread(ZONE, WEB)),
        case("n0", None, labels={"app": "web"}, topologySpreadConstraints=spread(ZONE, {})),
        case(
            "n0",
            None,
            labels={"app": "web"},
            nodeSelector={ZONE: "a"},
            topologySpreadConstraints=spread(ZONE, WEB),
        ),
        case(
            "n0",
            UNEVEN,
            labels={"app": "web"},
            nodeSelector={ZONE: "a"},
            topologySpreadConstraints=spread(ZONE, WEB, nodeAffinityPolicy="Ignore"),
        ),
        case(
            "n0",
            UNEVEN,
            labels={"app": "web"},
            nodeSelector={ZONE: "a"},
            topologySpreadConstraints=spread(ZONE, WEB, minDomains=2),
        ),
        case(
            "n0",
            None,
            labels={"app": "web", "v": "3"},
            topologySpreadConstraints=spread(ZONE, WEB, matchLabelKeys=["v"]),
        ),
    ],
)
def test_each_case_gets_the_expected_verdict(
    node: str, reason: str | None, labels: dict[str, str], spec: cases.Json
) -> None:
    cluster_objects = the_world()
    assert checker_for(asking(labels, **spec), cluster_objects).why_not(cluster_objects.nodes[node]) == reason


@pytest.mark.parametrize(("policy", "reason"), [("Honor", None), ("Ignore", UNEVEN), (None, UNEVEN)])
def test_domains_of_tainted_nodes_count_unless_the_constraint_honours_taints(
    policy: str | None, reason: str | None
) -> None:
    # Each rack has one but 10, whose only node is tainted.
    kin = [pod_of(a_pod(f"kin-{n}", labels={"app": "new"}, nodeName=n)) for n in ("n0", "n1", "n5")]
    constraint = spread(RACK, cases.selector(app="new"), **({"nodeTaintsPolicy": policy} if policy else {}))
    pod = asking({"app": "new"}, tolerations=[], topologySpreadConstraints=constraint)
    assert verdicts(pod, the_world((*RESIDENTS, *kin)))["n1"] == reason


def test_resources_missing_on_a_node_without_a_kubelet_do_not_reject_a_pod() -> None:
    bare = msgspec.convert({"metadata": {"name": "silent"}}, type(NODES[0]))
    cluster_objects = ClusterObjects(nodes={"silent": bare})
    assert checker_for(asking(containers=sized(cpu="4")), cluster_objects).why_not(bare) is None


def test_a_terminating_pod_counts_as_gone() -> None:
    leaving = {"deletionTimestamp": "2026-11-23T09:00:00Z"}
    terminating = [pod_of({**body, "metadata": {**body["metadata"], **leaving}}) for body in cases.RESIDENTS]
    cluster_objects = the_world(terminating)
    assert (
        checker_for(asking(containers=sized(cpu="4")), cluster_objects).why_not(cluster_objects.nodes["n0"])
        is None
    )


@settings(max_examples=40)
@given(cases.pods(), st.sets(st.sampled_from([*RESIDENTS, *GHOSTS]).map(lambda pod: pod.metadata.uid)))
def test_pods_that_leave_count_as_never_there(body: cases.Json, leaving: set[str]) -> None:
    everybody = (*RESIDENTS, *GHOSTS)
    pod = pod_of({**body, "metadata": {**body["metadata"], "name": "new"}})
    stay = tuple(one for one in everybody if one.metadata.uid not in leaving)
    assert verdicts(pod, the_world(everybody), frozenset(leaving)) == verdicts(pod, the_world(stay))


@settings(max_examples=40)
@given(
    cases.pods(),
    cases.pods(),
    st.sampled_from(NODES),
    st.sets(st.sampled_from([one.metadata.uid for one in RESIDENTS])),
)
def test_a_hypothetically_placed_pod_counts_like_one_that_is_there(
    first: cases.Json, second: cases.Json, node: Any, leaving: set[str]
) -> None:
    name = node.metadata.name
    one = pod_of({**first, "metadata": {**first["metadata"], "name": "first"}})
    two = pod_of({**second, "metadata": {**second["metadata"], "name": "second"}})
    there = msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, node_name=name))
    stay = tuple(other for other in RESIDENTS if other.metadata.uid not in leaving)
    thought = the_world().placing(one, name, without=frozenset(leaving))
    assert verdicts(two, thought) == verdicts(two, the_world((*stay, there)))


def test_pods_with_equal_node_requirements_share_one_verdict_and_others_do_not() -> None:
    cluster_objects = the_world()
    plain, tolerant = asking(tolerations=[]), asking()
    assert (verdicts(plain, cluster_objects)["n4"], verdicts(tolerant, cluster_objects)["n4"]) == (
        TAINTED,
        None,
    )
    assert verdicts(plain, cluster_objects) == verdicts(plain, the_world())
