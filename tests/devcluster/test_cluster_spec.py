"""What a cluster may be called and made of."""

from typing import Any

import msgspec
import pytest

from devcluster.addresses import NODES_AT_MOST
from devcluster.cluster import Record
from devcluster.errors import ClusterError
from devcluster.plan import Programs
from devcluster.spec import ClusterSpec, NodeSpec, checked


def test_the_default_is_two_nodes_of_four_gpus_in_two_models() -> None:
    spec = checked(ClusterSpec())

    assert [node.name for node in spec.nodes] == ["node-a", "node-b"]
    for node in spec.nodes:
        assert [gpu.profile.name for gpu in node.gpus] == [
            "NVIDIA A100-SXM4-80GB",
            "NVIDIA A100-SXM4-80GB",
            "NVIDIA RTX A6000",
            "NVIDIA RTX A6000",
        ]


@pytest.mark.parametrize(
    "name", ["", "A", "1a", "a_b", "a/b", "..", "a-", "-a", "a" * 21, "logs", "kubeconfig"]
)
def test_a_name_that_cannot_be_a_folder_and_a_control_group_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(ClusterError, match="a name has 1 to 20 characters"):
        checked(ClusterSpec(name=name))


@pytest.mark.parametrize("name", ["a", "a1", "e2e-2", "a" * 20])
def test_other_names_are_taken(name: str) -> None:
    assert checked(ClusterSpec(name=name)).name == name


@pytest.mark.parametrize("name", ["", "Node", "node.a", "etcd", "kube-scheduler", "pki", "logs"])
def test_a_node_cannot_have_the_name_of_a_daemon_or_of_a_folder_of_the_cluster(name: str) -> None:
    with pytest.raises(ClusterError, match="A node cannot be called"):
        checked(ClusterSpec(nodes=(NodeSpec(name=name),)))


@pytest.mark.parametrize("count", [0, NODES_AT_MOST + 1])
def test_the_number_of_nodes_has_bounds(count: int) -> None:
    nodes = tuple(NodeSpec(name=f"node-{index}") for index in range(count))

    with pytest.raises(
        ClusterError, match=f"A cluster has 1 to {NODES_AT_MOST} nodes; {count} were asked for"
    ):
        checked(ClusterSpec(nodes=nodes))


def test_nodes_have_different_names() -> None:
    with pytest.raises(ClusterError, match="Every node needs a name of its own"):
        checked(ClusterSpec(nodes=(NodeSpec(name="node-a"), NodeSpec(name="node-a"))))


def test_an_attached_client_reads_the_same_specification() -> None:
    record = Record(
        ClusterSpec(scheduler={"profiles": [{"schedulerName": "x"}]}), 3, Programs({"ctr": "/ctr"})
    )

    assert msgspec.json.decode(msgspec.json.encode(record), type=Record) == record


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kubernetes": "1.29"}, "There is no Kubernetes 1.29 here"),
        ({"nodes": (NodeSpec(name="a", kubernetes="1.12"),)}, "There is no Kubernetes 1.12 here"),
        ({"emulates": "1.30"}, "cannot emulate 1.30"),
        ({"emulates": "1.35", "kubernetes": "1.30"}, "name one of both"),
    ],
)
def test_a_version_that_is_not_there_is_refused_with_those_that_are(
    spec: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClusterError, match=message):
        checked(ClusterSpec(**spec))
