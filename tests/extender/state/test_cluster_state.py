"""What the extender's cache keeps beyond the common one."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from cluster.decide.ledger import WHOLE
from cluster.kube.resources import PODS
from extender.state.cluster_state import AT_A_TIME
from tests.extender.cluster import Cluster
from tests.fakes.objects import PodBuilder, a_lease, a_pod


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.add_node()
    return made


def waiting(cluster: Cluster) -> set[str]:
    with cluster.state.locked():
        return {pod.metadata.name for pod in cluster.state.waiting.values()}


def test_after_leases_were_listed_again_a_node_counts_when_its_lease_is_renewed(cluster: Cluster) -> None:
    lease = a_lease("n0", renewed=cluster.clock.now(), version=99)
    cluster.leases.replace([lease], "99")
    pod = cluster.create(a_pod().asks(1))
    assert cluster.ask(pod).node_names == ["n0"]
    cluster.clock.advance(1)
    cluster.leases.replace([lease], "100")
    assert cluster.ask(pod).node_names == []
    cluster.clock.advance(1)
    cluster.leases.upsert(a_lease("n0", renewed=cluster.clock.now(), version=101))
    assert cluster.ask(pod).node_names == ["n0"]


def test_pods_of_our_scheduler_that_ask_for_gpus_are_waiting_pods(cluster: Cluster) -> None:
    cluster.create(a_pod("ours").asks(1))
    cluster.create(a_pod("cpu"))
    cluster.create(a_pod("foreign").asks(1).scheduled_by("default-scheduler"))
    cluster.create(a_pod("bound").asks(1).on("n0", {"main": ("GPU-n0-0",)}))

    assert waiting(cluster) == {"ours"}


@pytest.mark.parametrize(
    "after",
    [a_pod().asks(1).on("n0"), a_pod().asks(1).ended(), a_pod().asks(1).terminating(), None],
    ids=["bound", "ended", "terminating", "gone"],
)
def test_a_pod_stops_waiting_once_it_is_bound_ended_or_deleted(
    cluster: Cluster, after: PodBuilder | None
) -> None:
    pod = cluster.create(a_pod().asks(9))
    cluster.ask(pod)

    if after is None:
        cluster.pods.remove(pod)
    else:
        cluster.pods.upsert(after.at(9_999).obj)

    assert waiting(cluster) == set()
    assert cluster.state.remembered(pod.metadata.uid) is None
    assert cluster.state.rejections == {}


def test_l1_a_list_that_is_older_than_a_bind_does_not_free_its_device(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    listed = cluster.kube.list(PODS).resource_version
    cluster.ask(pod)
    assert cluster.bind_to(pod) == ""
    cluster.state.of(PODS).upsert(cluster.stored())

    cluster.pods.replace((), listed)

    assert set(cluster.view().held.values()) == {WHOLE}


def test_a_pod_that_is_missing_in_a_newer_list_holds_nothing(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    assert cluster.bind_to(pod) == ""
    cluster.kube.delete(PODS, "p", namespace="default", grace_seconds=0)

    cluster.pods.replace((), cluster.kube.list(PODS).resource_version)

    assert not cluster.view().held


def test_filter_s_state_of_pods_missing_in_a_list_is_dropped_even_if_we_never_saw_them(
    cluster: Cluster,
) -> None:
    known = cluster.create(a_pod("known").asks(9))
    for seen in (known, a_pod("unknown").asks(9).at(50).obj, a_pod("newer").asks(9).at(500).obj):
        cluster.ask(seen)
    assert len(cluster.state.rejections) == 3

    cluster.pods.replace([known], "100")

    assert set(cluster.state.rejections) == {"uid-known", "uid-newer"}
    assert cluster.state.remembered("uid-unknown") is None


def test_pods_with_equal_requests_share_one_set_of_nodes(cluster: Cluster) -> None:
    cluster.add_node("n1")
    for number in range(3):
        cluster.ask(cluster.create(a_pod(f"p{number}").asks(9)), "n0", "n1")
        cluster.renew("n1")
    first, *others = (rejection.nodes for rejection in cluster.state.rejections.values())
    assert all(nodes is first for nodes in others)


def test_pods_filtered_on_two_alternating_lists_of_nodes_share_two_sets(cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_node("n2")
    for number in range(8):
        cluster.ask(cluster.create(a_pod(f"p{number}").asks(9)), "n0", f"n{number % 2 + 1}")
    kept = [rejection.nodes for rejection in cluster.state.rejections.values()]
    assert len(set(map(id, kept))) == len(set(kept)) == 2


class Counted:
    """A lock, and by how much a number of pods grew each time that it was held."""

    def __init__(self, lock: AbstractContextManager[None], taken: Callable[[], int]) -> None:
        self._lock = lock
        self._taken = taken
        self.portions: list[int] = []
        self._begins: list[int] = []

    def __enter__(self) -> None:
        self._lock.__enter__()
        self._begins.append(self._taken())

    def __exit__(self, *error: object) -> None:
        self.portions.append(self._taken() - self._begins.pop())
        self._lock.__exit__(*error)


def test_pods_of_a_list_are_added_in_portions_that_an_answer_can_wait_for(cluster: Cluster) -> None:
    """A filter that comes meanwhile gets the lock after the next portion."""
    count = 10 * AT_A_TIME + 1
    state = cluster.state
    state._guard.lock = counted = Counted(state._guard.lock, lambda: len(state.pods))
    pods = [a_pod(f"p{number}").asks(1).at(number + 1).obj for number in range(count)]
    state.of(PODS).replace(pods, str(count))
    assert len(state.pods) == count
    assert max(counted.portions) == AT_A_TIME


def test_pods_missing_in_a_list_are_removed_in_portions_too(cluster: Cluster) -> None:
    count = 10 * AT_A_TIME
    state = cluster.state
    pods = [a_pod(f"p{number}").asks(1).at(number + 1).obj for number in range(count)]
    state.of(PODS).replace(pods, str(count))
    for pod in pods:
        cluster.ask(pod)
    assert state.remembered(pods[1].metadata.uid)
    state._guard.lock = counted = Counted(state._guard.lock, lambda: count - len(state.pods))
    state.of(PODS).replace(pods[:1], str(2 * count))
    assert len(state.pods) == 1
    assert max(counted.portions) == AT_A_TIME
    assert [state.remembered(pod.metadata.uid) for pod in pods[1:]] == [None] * (count - 1)
