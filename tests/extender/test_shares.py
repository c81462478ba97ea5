"""Pods that share a GPU, from filter to bind, on the API server in memory."""

import pytest

from cluster import dialect_names, names
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
from extender.pending.requeue import PATIENCE, Requeue
from extender.verbs.prioritize import Prioritize
from extender.wire import ExtenderArgs
from tests.extender.cluster import Cluster
from tests.fakes.objects import PodBuilder, a_pod, shared_gpu

GIB = 1024
G0, G1 = "GPU-n0-0", "GPU-n0-1"


@pytest.fixture
def cluster() -> Cluster:
    """A node with one GPU of 40 GiB."""
    cluster = Cluster()
    cluster.add_node("n0", shared_gpu(0, memory=40 * GIB))
    return cluster


def bound(cluster: Cluster, builder: PodBuilder) -> Pod:
    """A pod that is created, bound, and taken by its kubelet."""
    pod = cluster.create(builder)
    assert cluster.ask(pod).node_names == ["n0"]
    assert cluster.bind_to(pod) == ""
    return cluster.take(builder.name)


def why(cluster: Cluster, pod: Pod) -> str:
    return (cluster.ask(pod).failed_and_unresolvable_nodes or {}).get("n0", "")


def test_two_pods_share_a_gpu_and_the_third_has_its_room_when_one_leaves(cluster: Cluster) -> None:
    requeue = Requeue(cluster.kube, cluster.state, cluster.clock, namespace="gpu-booking")
    first = bound(cluster, a_pod("a").shares(memory=24 * GIB, cores=25))
    bound(cluster, a_pod("b").shares(memory=16 * GIB, cores=50))
    third = cluster.create(a_pod("c").shares(memory=GIB))

    assert why(cluster, third) == "node(s) had no room for 1024 MiB of a GPU [share-in-use]"
    assert "The pod no longer fits on node n0" in cluster.bind_to(third)
    requeue.reconcile()
    cluster.kube.calls.clear()
    cluster.pods.remove(first)
    for _ in range(2):
        requeue.reconcile()
        cluster.clock.advance(PATIENCE)

    assert [call.verb for call in cluster.kube.calls if "csistoragecapacities" in call.path] == [
        "PATCH",
        "POST",
    ]
    assert why(cluster, third) == ""
    assert cluster.bind_to(third) == ""
    assert cluster.given("c") == {"main": (G0,)}


def test_a_share_is_bound_by_one_write_which_says_the_mode(cluster: Cluster) -> None:
    bound(cluster, a_pod("a").shares(percentage=50).with_annotation(names.SHARING_MODE, "any"))

    assert len(cluster.bindings()) == 1
    assert cluster.stored("a").metadata.annotation(names.SHARING_MODE) == "time-slice"
    assert cluster.view().held[G0].memory == 20 * GIB


@pytest.mark.parametrize("first", ["share", "whole"])
def test_of_a_share_and_a_whole_request_for_one_gpu_the_first_bind_has_it(
    cluster: Cluster, first: str
) -> None:
    pods = {
        "share": cluster.create(a_pod("share").shares(memory=GIB)),
        "whole": cluster.create(a_pod("whole").asks(1)),
    }
    for pod in pods.values():
        cluster.ask(pod)

    errors = {name: cluster.bind_to(pods[name]) for name in sorted(pods, key=lambda name: name != first)}

    assert errors.pop(first) == ""
    assert all("no longer fits" in error for error in errors.values())
    assert len(cluster.bindings()) == 1


def test_l9_what_is_held_after_a_restart_is_what_was_held_before(cluster: Cluster) -> None:
    bound(cluster, a_pod("a").shares(percentage=30, cores=10))
    init = a_pod("b").shares(memory=9000, kind="init", container="setup").shares(memory=100)
    bound(cluster, init)
    again = Cluster()
    again.add_node("n0", shared_gpu(0, memory=40 * GIB))
    for name in ("b", "a"):
        again.pods.upsert(cluster.stored(name))

    assert again.view().held == cluster.view().held
    assert again.view().held[G0].memory == 40 * GIB * 30 // 100 + 9000


@pytest.mark.parametrize("placement", names.PLACEMENTS)
def test_a_replica_of_another_plugin_is_given_to_who_asks_for_no_amount_and_to_nobody_else(
    placement: str,
) -> None:
    cluster = Cluster()
    shown = replica(0), replica(1)
    cluster.add_node("n0", *shown)
    first, second, third = (cluster.create(a_pod(name).shares()) for name in ("a", "b", "c"))
    sized = cluster.create(a_pod("sized").shares(memory=1))

    assert why(cluster, sized).endswith("[too-many]")
    assert "no longer fits" in cluster.bind_to(sized)
    for pod in (first, second):
        assert cluster.ask(pod).node_names == ["n0"]
        Prioritize(cluster.state, cluster.clock, placement)(ExtenderArgs(pod=pod, node_names=("n0",)))
        assert cluster.bind_to(pod) == ""
        cluster.take(pod.metadata.name)
    assert why(cluster, third).endswith("[in-use]")
    given = [cluster.given(name) or {} for name in ("a", "b")]
    assert {uuid for one in given for uuid in one["main"]} == {one.uuid for one in shown}
    assert cluster.view().conflicts == ()


def replica(index: int) -> Device:
    """One turn on a GPU, as another plugin offers it under the name of our slots."""
    return Device(
        uuid=f"n0-0.r{index}",
        model=f"A100{names.SHARED_MODEL}",
        resource=names.SHARED_RESOURCE,
        numbered=True,
    )


def test_a_burst_of_shares_reserves_room_softly_and_not_whole_gpus() -> None:
    cluster = Cluster()
    cluster.add_node("n0", shared_gpu(0, memory=20 * GIB))
    cluster.add_node("n1", shared_gpu(0, "n1", memory=20 * GIB))
    prioritize = Prioritize(cluster.state, cluster.clock)
    kept: list[str] = []
    for index in range(4):
        pod = cluster.create(a_pod(f"p{index}").shares(memory=8 * GIB))
        fitting = tuple(cluster.ask(pod, "n0", "n1").node_names or ())
        if len(fitting) > 1:
            prioritize.answer_logged(ExtenderArgs(pod=pod, node_names=fitting))
        kept.append(next(node for node in ("n0", "n1") if _is_reserved(cluster, pod, node)))

    assert sorted(kept) == ["n0", "n0", "n1", "n1"]


def _is_reserved(cluster: Cluster, pod: Pod, node: str) -> bool:
    mine = cluster.state.soft.of_others("")
    others = cluster.state.soft.of_others(pod.metadata.uid)
    return len(mine.get(node, ())) > len(others.get(node, ()))


def test_the_binding_of_a_pod_of_gpushares_says_what_its_tools_read(cluster: Cluster) -> None:
    bound(cluster, a_pod("a").shares(memory=8 * GIB, aliyun=8))

    found = cluster.stored("a").metadata.annotations or {}
    nanoseconds = str(int(cluster.clock.now().timestamp()) * 10**9)
    assert {key: found.get(key) for key in dialect_names.GPUSHARE_STATE} == {
        dialect_names.GPUSHARE_INDEX: "0",
        dialect_names.GPUSHARE_ID: "0",
        dialect_names.GPUSHARE_DEVICE: "40",
        dialect_names.GPUSHARE_POD: "8",
        dialect_names.GPUSHARE_TIME: nanoseconds,
        dialect_names.GPUSHARE_ASSIGNED: "true",
    }


def test_the_node_whose_shared_gpu_becomes_the_fullest_is_best_and_one_with_a_free_gpu_worst() -> None:
    cluster = Cluster()
    for index, used in enumerate((0, 10, 30)):
        cluster.add_node(f"n{index}", shared_gpu(0, f"n{index}", memory=40 * GIB))
        if used:
            pod = (
                a_pod(f"on-{index}").shares(memory=used * GIB).on(f"n{index}", {"main": (f"GPU-n{index}-0",)})
            )
            cluster.create(pod)
    asking = cluster.create(a_pod("p").shares(memory=2 * GIB))

    for placement, order in (("binpack", ["n2", "n1", "n0"]), ("spread", ["n0", "n1", "n2"])):
        prioritize = Prioritize(cluster.state, cluster.clock, placement)
        scores = prioritize(ExtenderArgs(pod=asking, node_names=("n0", "n1", "n2")))
        assert [one.host for one in sorted(scores, key=lambda one: -one.score)] == order
