import msgspec
import pytest

from cluster.decide import predicates
from extender.wire import WHOLE_NODES, Arguments
from tests.extender.cluster import Cluster
from tests.fakes.objects import A100, a_pod


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.add_node("n0")
    made.add_node("n1")
    return made


def test_nodes_keep_the_order_in_which_they_were_offered(cluster: Cluster) -> None:
    assert cluster.ask(cluster.create(a_pod().asks(1)), "n1", "n0").node_names == ["n1", "n0"]


def test_a_rejection_is_unresolvable_and_says_why(cluster: Cluster) -> None:
    cluster.create(a_pod("q").asks(2).on("n0", {"main": ("GPU-n0-0", "GPU-n0-1")}))

    result = cluster.ask(cluster.create(a_pod().asks(1).wants(A100)), "n0", "n1", "unknown")

    assert result.node_names == ["n1"]
    assert result.failed_nodes == {}
    assert result.failed_and_unresolvable_nodes == {
        "n0": f"not enough GPUs of model {A100} on this node are free",
        "unknown": predicates.NOT_PUBLISHED,
    }


def test_the_same_question_has_the_same_answer_until_something_changes(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(9))

    first = cluster.ask(pod, "n0", "n1")
    cluster.clock.advance(30)

    assert cluster.ask(pod, "n0", "n1") == first


@pytest.mark.parametrize("names", [b"null", b"[]"])
def test_no_nodes_are_no_answer(cluster: Cluster, names: bytes) -> None:
    arguments = msgspec.json.decode(
        b'{"Pod": {"metadata": {"uid": "u"}}, "Nodes": null, "NodeNames": ' + names + b"}", type=Arguments
    )

    assert cluster.filter(arguments).node_names == []
    assert cluster.filter(arguments).error == ""


def test_whole_nodes_are_refused_with_the_name_of_the_setting(cluster: Cluster) -> None:
    arguments = msgspec.json.decode(b'{"Pod": {}, "Nodes": {"items": []}, "NodeNames": null}', type=Arguments)

    assert cluster.filter(arguments).error == WHOLE_NODES
    assert "nodeCacheCapable: true" in WHOLE_NODES


def test_an_amount_that_cannot_be_read_is_an_error(cluster: Cluster) -> None:
    pod = msgspec.json.decode(
        b'{"spec": {"containers": [{"name": "m", "resources": {"limits": {"nvidia.com/gpu": "x"}}}]}}',
        type=type(a_pod().obj),
    )

    assert cluster.filter(Arguments(pod=pod, node_names=("n0",))).error == (
        "'x' is not a Kubernetes quantity."
    )
