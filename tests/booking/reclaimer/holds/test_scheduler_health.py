"""A held pod that the scheduler could not bind costs no second victim and bars no node (law L3)."""

import pytest

from booking.reclaimer.holds.hold_controller import BOUND_WITHIN
from booking.reclaimer.holds.scheduler_health import BEHIND_AT_MOST
from cluster import names
from cluster.decide.predicates import HELD_NOT_FREE
from cluster.fake.merging import merged
from cluster.kube.resources import PODS
from tests.booking.reclaimer.fake_cluster import FakeCluster

NO_ANSWER = (
    'Post "http://127.0.0.1:8880/bind": context deadline exceeded'
    " (Client.Timeout exceeded while awaiting headers)"
)
NOT_READY = "failed filter with extender at URL http://127.0.0.1:8880/filter, code 503"
CUT_OFF = f"binding rejected: {names.NOT_NOW} The API server has not said whether the pod is bound."
REFUSED = "The API server refused the Binding (403 Forbidden)."
DOES_NOT_FIT = "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."


@pytest.fixture
def cluster(cluster: FakeCluster) -> FakeCluster:
    """Alice's booked pod is held, and its victim has left: it could be bound at once."""
    cluster.reconcile(2)
    cluster.gone("b3")
    cluster.reconcile()
    return cluster


def scheduler_reports(cluster: FakeCluster, reason: str, message: str) -> None:
    """kube-scheduler writes this condition on the pod."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    raw = cluster.kube.raw(PODS, "a", namespace="default")
    cluster.kube.put(PODS, merged(raw, {"status": {"conditions": [condition]}}))


@pytest.mark.parametrize("message", [NO_ANSWER, NOT_READY, CUT_OFF])
def test_an_extender_that_does_not_answer_or_is_not_ready_costs_the_pod_nothing(
    cluster: FakeCluster, message: str
) -> None:
    scheduler_reports(cluster, "SchedulerError", message)
    for _ in range(10):
        cluster.after(BOUND_WITHIN)
    assert cluster.held() is not None
    assert cluster.evicted() == ["b3"]
    assert cluster.annotation("a", names.BARRED) is None


@pytest.mark.parametrize(
    "message",
    [
        f"0/2 nodes are available: 1 {HELD_NOT_FREE.with_code}.",
        f"The pod no longer fits on node n0: {HELD_NOT_FREE}.",
    ],
    ids=["filter", "bind"],
)
def test_an_extender_that_has_not_yet_seen_the_victim_leave_costs_the_pod_nothing(
    cluster: FakeCluster, message: str
) -> None:
    scheduler_reports(cluster, "Unschedulable", message)
    for _ in range(10):
        cluster.after(BOUND_WITHIN)
    assert cluster.held() is not None
    assert cluster.evicted() == ["b3"]


def test_an_extender_that_disagrees_longer_than_events_may_take_ends_the_hold(
    cluster: FakeCluster,
) -> None:
    scheduler_reports(cluster, "Unschedulable", f"0/2 nodes are available: 1 {HELD_NOT_FREE.with_code}.")
    for _ in range(2 + int((BEHIND_AT_MOST + BOUND_WITHIN) / BOUND_WITHIN)):
        cluster.after(BOUND_WITHIN)
    assert cluster.annotation("a", names.BARRED) == "n0"


@pytest.mark.parametrize(
    ("reason", "message"), [("SchedulerError", REFUSED), ("Unschedulable", DOES_NOT_FIT)]
)
def test_a_pod_that_the_scheduler_could_have_bound_loses_its_hold(
    cluster: FakeCluster, reason: str, message: str
) -> None:
    scheduler_reports(cluster, reason, message)
    cluster.after(0)
    cluster.after(BOUND_WITHIN)
    assert cluster.annotation("a", names.BARRED) == "n0"


def test_an_extender_that_answers_again_has_the_whole_time_for_the_bind(cluster: FakeCluster) -> None:
    scheduler_reports(cluster, "SchedulerError", NO_ANSWER)
    cluster.after(BOUND_WITHIN)
    scheduler_reports(cluster, "Unschedulable", DOES_NOT_FIT)
    cluster.after(0)
    cluster.after(BOUND_WITHIN - 0.5)
    assert cluster.held() is not None
    cluster.after(0.5)
    assert cluster.held() is None
