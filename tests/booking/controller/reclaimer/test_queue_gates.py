"""Pods behind our scheduling gate, and the reclaimer that removes it."""

import pytest

from booking.controller.reclaimer.queue_gates import BOUND_WITHIN, UNKNOWN_AT_MOST
from booking.controller.reclaimer.reclaimer import EVERY
from booking.eviction.settings import EvictionSettings
from cluster import names
from cluster.decide.queueing import AHEAD, MOST
from cluster.kube.errors import Refusal, Request, ServerError
from cluster.kube.resources import PODS
from cluster.objects.scheduling_gates import is_queued, other_gates
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import a100, a_pod

OTHERS = "kueue.x-k8s.io/admission"


@pytest.fixture
def cluster() -> FakeCluster:
    """Four A100s that bob's pods hold, and two that wait for the scheduler with nothing free."""
    found = FakeCluster(terms=EvictionSettings(queue_gate=True))
    found.add_node()
    found.fill()
    for name in ("ahead-0", "ahead-1")[:AHEAD]:
        found.waiting(name, user="bob")
    return found


def queue(
    cluster: FakeCluster, *pods: str, gates: tuple[str, ...] = (names.QUEUE,), user: str = "bob"
) -> None:
    """Pods behind gates, each created after the one before."""
    for place, name in enumerate(pods):
        born = f"2026-11-23T08:59:{place:02}Z"
        cluster.create(a_pod(name).of(user).asks(1).behind(*gates), {"metadata": {"creationTimestamp": born}})


def queued(cluster: FakeCluster) -> list[str]:
    return sorted(pod.metadata.name for pod in cluster.kube.list(PODS).items if is_queued(pod))


def free(cluster: FakeCluster, *pods: str) -> None:
    for pod in pods:
        cluster.gone(pod)


class TestInTurn:
    def test_no_pod_is_ungated_while_nothing_is_free(self, cluster: FakeCluster) -> None:
        queue(cluster, "p0", "p1", "p2")
        cluster.after(60)
        assert queued(cluster) == ["p0", "p1", "p2"]

    def test_gpus_that_the_pods_ahead_leave_go_to_the_next_in_the_queue(self, cluster: FakeCluster) -> None:
        queue(cluster, "p0", "p1", "p2", "p3")
        free(cluster, "b0", "b1", "b2")
        cluster.reconcile(3)
        assert queued(cluster) == ["p2", "p3"], "one has room, and one is ahead"
        for index, name in enumerate(("ahead-0", "ahead-1", "p0")):
            cluster.bind(name, index)
        cluster.reconcile()
        assert queued(cluster) == ["p2", "p3"]
        free(cluster, "b3")
        cluster.reconcile()
        assert queued(cluster) == ["p3"], "the one ahead has room"

    def test_the_queue_does_not_wait_for_a_pod_that_is_not_bound_in_time(self, cluster: FakeCluster) -> None:
        queue(cluster, "p0", "p1", "p2")
        free(cluster, "b0", "b1")
        cluster.reconcile(2)
        assert queued(cluster) == ["p1", "p2"], "those ahead have room, and are not bound"
        cluster.after(BOUND_WITHIN)
        assert queued(cluster) == ["p2"]
        cluster.after(BOUND_WITHIN)
        assert queued(cluster) == []

    def test_another_process_carries_on_and_ungates_no_pod_too_many(self, cluster: FakeCluster) -> None:
        queue(cluster, "p0", "p1", "p2", "p3")
        free(cluster, "b0", "b1", "b2")
        cluster.reconcile(2)
        cluster.restart()
        cluster.reconcile(2)
        assert queued(cluster) == ["p2", "p3"]

    def test_a_refused_removal_of_a_gate_is_retried(self, cluster: FakeCluster) -> None:
        queue(cluster, "p0")
        free(cluster, "b0", "b1", "b2")
        cluster.kube.fail("PATCH", ServerError(Request("PATCH", "pods"), Refusal(code=500)))
        cluster.reconcile()
        assert queued(cluster) == ["p0"]
        cluster.reconcile()
        assert queued(cluster) == []

    def test_hundreds_are_ungated_a_few_at_a_time(self, cluster: FakeCluster) -> None:
        cluster.add_node("n1", *(a100(index, "n1") for index in range(2 * MOST)))
        queue(cluster, *(f"p{number:02}" for number in range(50)))
        cluster.reconcile()
        assert len(queued(cluster)) == 50 - MOST
        cluster.reconcile(3)
        assert len(queued(cluster)) == 50 - (2 * MOST - AHEAD) - 1


class TestAtOnce:
    def test_a_pod_covered_by_a_booking_in_the_meantime_is_ungated_and_gets_its_gpu(
        self, cluster: FakeCluster
    ) -> None:
        queue(cluster, "a", user="alice")
        cluster.reconcile()
        assert queued(cluster) == ["a"]
        cluster.book()
        cluster.reconcile(2)
        assert queued(cluster) == []
        assert cluster.pod("a").metadata.annotation(names.HOLD)

    def test_the_scheduling_gate_of_another_stays(self, cluster: FakeCluster) -> None:
        queue(cluster, "a", gates=(OTHERS, names.QUEUE), user="alice")
        cluster.book()
        cluster.reconcile(2)
        pod = cluster.pod("a")
        assert not is_queued(pod)
        assert other_gates(pod) == (OTHERS,)

    def test_all_pods_are_ungated_when_the_setting_is_off(self) -> None:
        cluster = FakeCluster()
        cluster.add_node()
        cluster.fill()
        queue(cluster, "p0", "p1", "p2")
        cluster.reconcile()
        assert queued(cluster) == []


class TestWhileTheStateIsUnknown:
    def test_l6_pods_are_ungated_when_the_cluster_stays_unknown_for_long(self, cluster: FakeCluster) -> None:
        queue(cluster, "p0", "p1", "p2")
        cluster.reconcile()
        cluster.unready_reason = "the cache is old"
        cluster.after(EVERY)
        cluster.after(UNKNOWN_AT_MOST - 1)
        assert queued(cluster) == ["p0", "p1", "p2"]
        cluster.after(1)
        assert queued(cluster) == []

    def test_a_cluster_that_is_unknown_for_a_short_time_ungates_no_pod(self, cluster: FakeCluster) -> None:
        queue(cluster, "p0")
        cluster.reconcile()
        for unready_reason in ("the cache is old", None) * 3:
            cluster.unready_reason = unready_reason
            cluster.after(UNKNOWN_AT_MOST - 1)
        assert queued(cluster) == ["p0"]

    def test_a_process_that_does_not_lead_ungates_no_pod(self, cluster: FakeCluster) -> None:
        queue(cluster, "p0")
        cluster.leads = False
        free(cluster, "b0", "b1", "b2")
        cluster.after(1)
        cluster.unready_reason = "the cache is old"
        for _ in range(3):
            cluster.after(UNKNOWN_AT_MOST)
        assert queued(cluster) == ["p0"]
