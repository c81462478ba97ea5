"""Binds at the same time: of one pod, of many pods on one node, and a filter in the middle of one."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cluster.fake.clock import FakeClock, eventually
from cluster.fake.server import FakeKube
from cluster.kube.errors import Request, Unreachable
from extender.binding.assumed_binds import ASK_AFTER
from extender.binding.bind import BUDGET, UNDER_WAY, Bind
from extender.binding.keyed_lock import KeyedLock
from extender.leadership import always
from tests.extender.cluster import Cluster
from tests.fakes.objects import A100, A6000, a100, a_pod


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.add_node("n0")
    return made


class SlowKube(FakeKube):
    """An API server that answers a Binding only when it is allowed to."""

    def __init__(self) -> None:
        super().__init__()
        self.allowed = threading.Event()

    def create_subresource(self, *args: Any, **named: Any) -> None:
        """Wait, then do it."""
        assert self.allowed.wait(10)
        super().create_subresource(*args, **named)


def in_background(target: Any, answers: list[str]) -> threading.Thread:
    thread = threading.Thread(target=lambda: answers.append(target()))
    thread.start()
    return thread


@pytest.fixture
def slow(cluster: Cluster) -> SlowKube:
    kube = SlowKube()
    cluster.kube = kube
    cluster.bind = Bind(kube, cluster.state, cluster.clock, KeyedLock(cluster.clock), leads=always)
    return kube


def test_two_simultaneous_binds_of_one_pod_end_in_one_binding(cluster: Cluster, slow: SlowKube) -> None:
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    answers: list[str] = []

    threads = [in_background(lambda: cluster.bind_to(pod), answers) for _ in range(2)]
    eventually(lambda: cluster.view().held)
    slow.allowed.set()
    for thread in threads:
        thread.join(10)

    assert answers == ["", ""]
    assert cluster.bindings() == ["n0"]


class CrowdedKube(FakeKube):
    """An API server that answers no Binding before so many have come."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._all = threading.Barrier(count)

    def create_subresource(self, *args: Any, **named: Any) -> None:
        """Wait for the others, then do it."""
        self._all.wait(60)
        super().create_subresource(*args, **named)


def test_many_pods_are_bound_to_as_many_nodes_at_the_same_time(cluster: Cluster) -> None:
    count = 40
    cluster.kube = CrowdedKube(count)
    cluster.bind = Bind(cluster.kube, cluster.state, cluster.clock, KeyedLock(cluster.clock), leads=always)
    nodes = [f"m{number}" for number in range(count)]
    for node in nodes:
        cluster.add_node(node, a100(0, node))
    pods = [cluster.create(a_pod(f"p{number}").asks(1)) for number in range(count)]
    for pod, node in zip(pods, nodes, strict=True):
        assert cluster.ask(pod, node).node_names == [node]

    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(cluster.bind_to, pods, nodes))

    assert answers == [""] * count


def test_l1_a_pod_that_is_filtered_during_a_bind_does_not_see_its_device(
    cluster: Cluster, slow: SlowKube
) -> None:
    first, second = cluster.create(a_pod("a").asks(4).wants(A100, A6000)), cluster.create(a_pod("b").asks(1))
    cluster.ask(first)
    answers: list[str] = []

    thread = in_background(lambda: cluster.bind_to(first), answers)
    eventually(lambda: cluster.view().held)
    result = cluster.ask(second)
    slow.allowed.set()
    thread.join(10)

    assert result.node_names == []
    assert answers == [""]


def test_a_bind_waits_for_another_bind_of_its_pod_no_longer_than_its_own_time(cluster: Cluster) -> None:
    pod = cluster.create(a_pod("a").asks(1))
    cluster.ask(pod, "n0")
    cluster.clock = FakeClock(self_advancing=True)
    keyed_lock = KeyedLock(cluster.clock)
    cluster.bind = Bind(cluster.kube, cluster.state, cluster.clock, keyed_lock, leads=always)
    begun = cluster.clock.monotonic()
    with keyed_lock.held(pod.metadata.uid, 0):
        assert cluster.bind_to(pod) == UNDER_WAY
    assert cluster.clock.monotonic() - begun == BUDGET
    assert cluster.bindings() == []
    assert cluster.bind_to(pod) == ""


def test_an_unseen_bind_is_not_resolved_while_its_pod_is_bound_again(cluster: Cluster) -> None:
    pod = cluster.create(a_pod("a").asks(1))
    cluster.ask(pod, "n0")
    cluster.kube.fail("POST", Unreachable(Request("POST", "/binding"), "timed out"))
    assert cluster.bind_to(pod)
    cluster.assumed_binds.reconcile()
    cluster.clock.advance(ASK_AFTER)
    calls_before = len(cluster.kube.calls)
    with cluster.keyed_lock.held(pod.metadata.uid, 0):
        cluster.assumed_binds.reconcile()
    assert len(cluster.kube.calls) == calls_before
    cluster.assumed_binds.reconcile()
    assert len(cluster.kube.calls) > calls_before
