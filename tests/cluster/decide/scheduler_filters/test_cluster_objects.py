"""The cluster around a pod, as it is and as it will be."""

import pytest

from cluster.decide.scheduler_filters import ClusterObjects, node_pods_of, other_of
from cluster.decide.scheduler_filters.existing_pods import ExistingPod
from cluster.objects.pods import Pod
from tests.cluster.decide.scheduler_filters import cases
from tests.cluster.decide.scheduler_filters.world import NODES, pod_of

N0, N1, N2 = NODES[:3]
SHY = pod_of(cases.a_pod("shy", nodeName="n1", affinity=cases.FAR_FROM_DB))


def plain(name: str) -> Pod:
    return pod_of(cases.a_pod(name))


def kept(*pods: Pod) -> list[ExistingPod]:
    return [other for pod in pods if (other := other_of(pod))]


def cluster_objects(**pods: tuple[Pod, ...]) -> ClusterObjects:
    node_pods = {node: node_pods_of(kept(*there)) for node, there in pods.items()}
    return ClusterObjects(nodes={"n0": N0, "n1": N1, "n2": N2}, node_pods=node_pods)


def names(there: ClusterObjects) -> dict[str, list[str]]:
    return {node: [other.uid for other in there.pods_on(node).others] for node in ("n0", "n1", "n2")}


def test_a_node_without_known_pods_has_none() -> None:
    assert names(cluster_objects()) == {"n0": [], "n1": [], "n2": []}
    assert cluster_objects().pods_on("unknown").others == ()


def test_pods_count_only_on_nodes_that_exist() -> None:
    there = cluster_objects(n0=(plain("p"),), n9=(plain("q"), SHY))

    assert [(node.metadata.name, other.uid) for node, other in there.standing()] == [("n0", "uid-p")]
    assert there.with_anti_affinity == ()


def test_pods_with_anti_affinity_are_found_with_their_nodes() -> None:
    there = cluster_objects(n0=(plain("p"),), n1=(plain("q"), SHY))

    assert [(node.metadata.name, other.uid) for node, other in there.with_anti_affinity] == [
        ("n1", "uid-shy")
    ]


@pytest.mark.parametrize(
    ("without", "n0", "n1"),
    [
        (set(), ["uid-p", "uid-q", "uid-new"], ["uid-r"]),
        ({"uid-p"}, ["uid-q", "uid-new"], ["uid-r"]),
        ({"uid-p", "uid-q"}, ["uid-new"], ["uid-r"]),
        ({"uid-r"}, ["uid-p", "uid-q", "uid-new"], []),
        ({"uid-q", "uid-r"}, ["uid-p", "uid-new"], []),
        ({"uid-unknown"}, ["uid-p", "uid-q", "uid-new"], ["uid-r"]),
    ],
    ids=[
        "no pod",
        "a neighbour",
        "two neighbours",
        "one elsewhere",
        "one here and one there",
        "none known",
    ],
)
def test_a_pod_is_placed_once_others_have_left_wherever_they_were(
    without: set[str], n0: list[str], n1: list[str]
) -> None:
    there = cluster_objects(n0=(plain("p"), plain("q")), n1=(plain("r"),))

    later = there.placing(plain("new"), "n0", without=frozenset(without))

    assert names(later) == {"n0": n0, "n1": n1, "n2": []}
    assert names(there) == {"n0": ["uid-p", "uid-q"], "n1": ["uid-r"], "n2": []}


def test_a_pod_that_is_already_there_is_not_placed_twice() -> None:
    there = cluster_objects(n0=(plain("p"),))

    assert names(there.placing(plain("p"), "n0"))["n0"] == ["uid-p"]


def test_a_pod_that_has_ended_is_not_placed() -> None:
    over = pod_of({**cases.a_pod("over"), "status": {"phase": "Succeeded"}})

    assert names(cluster_objects().placing(over, "n0"))["n0"] == []


def test_the_requests_of_a_placed_pod_are_in_use() -> None:
    pod = pod_of(cases.a_pod("new", containers=[cases.container(amounts={"cpu": "2"})]))

    assert cluster_objects().placing(pod, "n0").pods_on("n0").used == {"cpu": 2000}


@pytest.mark.parametrize(
    ("pod", "node", "without", "with_anti_affinity"),
    [
        (plain("new"), "n0", set(), ["uid-shy"]),
        (plain("new"), "n1", {"uid-shy"}, []),
        (plain("new"), "n0", {"uid-shy"}, []),
        (pod_of(cases.a_pod("new", affinity=cases.FAR_FROM_DB)), "n0", set(), ["uid-shy", "uid-new"]),
    ],
    ids=["no pod with anti-affinity", "one leaves the node", "one leaves another node", "one comes"],
)
def test_pods_with_anti_affinity_are_found_again_after_a_pod_is_placed(
    pod: Pod, node: str, without: set[str], with_anti_affinity: list[str]
) -> None:
    there = cluster_objects(n1=(SHY,))
    assert [other.uid for _, other in there.with_anti_affinity] == ["uid-shy"]

    later = there.placing(pod, node, without=frozenset(without))

    assert [other.uid for _, other in later.with_anti_affinity] == with_anti_affinity
