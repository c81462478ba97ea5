from extender.policies.binpack import binpack
from extender.prioritize import Prioritize
from extender.wire import Arguments
from tests.extender.cluster import Cluster
from tests.fakes.objects import A100, PodBuilder, a_pod


def scores(pod: PodBuilder, *bound: PodBuilder) -> dict[str, int]:
    cluster = Cluster()
    for node in ("n0", "n1"):
        cluster.add_node(node)
    for other in bound:
        cluster.create(other)
    ranked = Prioritize(cluster.state, binpack)(Arguments(pod=pod.obj, node_names=("n0", "n1")))
    return {one.host: one.score for one in ranked}


def test_a_node_in_use_is_better_than_an_empty_one() -> None:
    busy = a_pod("q").asks(2).on("n1", {"main": ("GPU-n1-0", "GPU-n1-1")})

    assert scores(a_pod().asks(1), busy) == {"n0": 2, "n1": 7}


def test_a_node_that_the_pod_fills_up_is_best() -> None:
    assert scores(a_pod().asks(4)) == {"n0": 10, "n1": 10}


def test_only_devices_of_the_wanted_model_count() -> None:
    busy = a_pod("q").asks(1).on("n1", {"main": ("GPU-n1-2",)})

    assert scores(a_pod().asks(1).wants(A100), busy) == {"n0": 5, "n1": 5}


def test_nodes_without_such_devices_and_pods_without_gpus_score_nothing() -> None:
    assert scores(a_pod()) == {"n0": 0, "n1": 0}
    assert scores(a_pod().asks(1, resource="nvidia.com/mig-1g.5gb")) == {"n0": 0, "n1": 0}
