"""A held pod that the scheduler could not bind costs no second victim and bars no node (law L3)."""

import pytest

from booking.controller.reclaimer.holds.hold_controller import BOUND_WITHIN
from booking.controller.reclaimer.holds.scheduler_health import BEHIND_AT_MOST
from cluster import names
from cluster.fake.merging import merged
from cluster.kube.resources import LEASES, PODS
from cluster.objects.hold_verdicts import ACCEPTED, NOT_FREE, NOT_NOW, REFUSED, HoldVerdict
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster

A = "uid-a"
SENTENCE = f'Post "http://127.0.0.1:8880/bind": {names.NOT_NOW} [{NOT_FREE}]'
"""What people read is of no consequence."""


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


def spared(cluster: FakeCluster) -> bool:
    """Whether alice's hold is not touched for a hundred seconds."""
    for _ in range(10):
        cluster.after(BOUND_WITHIN)
    assert cluster.evicted() == ["b3"]
    return cluster.held() is not None and cluster.annotation("a", names.BARRED) is None


def blamed_at_once(cluster: FakeCluster) -> bool:
    cluster.after(0)
    cluster.after(BOUND_WITHIN)
    return cluster.annotation("a", names.BARRED) == "n0"


@pytest.mark.parametrize("verdict", [None, NOT_NOW, NOT_FREE])
def test_an_error_of_which_the_extender_knows_nothing_or_that_passes_costs_the_pod_nothing(
    cluster: FakeCluster, verdict: HoldVerdict | None
) -> None:
    scheduler_reports(cluster, "SchedulerError", "context deadline exceeded")
    cluster.verdicts = {A: verdict} if verdict else {}
    assert spared(cluster)


def test_an_extender_that_has_not_yet_seen_the_victim_leave_costs_the_pod_nothing(
    cluster: FakeCluster,
) -> None:
    scheduler_reports(cluster, "Unschedulable", "0/2 nodes are available.")
    cluster.verdicts = {A: NOT_FREE}
    assert spared(cluster)


@pytest.mark.parametrize("reason", ["SchedulerError", "Unschedulable"])
@pytest.mark.parametrize("released", [False, True])
def test_an_extender_that_does_not_renew_its_lease_costs_the_pod_nothing(
    cluster: FakeCluster, reason: str, *, released: bool
) -> None:
    scheduler_reports(cluster, reason, "no")
    cluster.verdicts = None
    if released:
        cluster.renew_lease(names.VERDICT_LEASE, {names.STOPPING: "now"})
    assert spared(cluster)


def test_an_extender_that_ends_when_the_last_victim_leaves_costs_the_pod_nothing(
    cluster: FakeCluster,
) -> None:
    cluster.verdicts = None
    for _ in range(40):
        cluster.after(0.5)
    assert cluster.held() is not None


@pytest.mark.parametrize("verdict", [NOT_FREE, "a code of a later version"])
def test_an_extender_that_disagrees_longer_than_events_may_take_ends_the_hold(
    cluster: FakeCluster, verdict: HoldVerdict
) -> None:
    scheduler_reports(cluster, "Unschedulable", "0/2 nodes are available.")
    cluster.verdicts = {A: verdict}
    assert spared(cluster)
    for _ in range(2 + int((BEHIND_AT_MOST - 100 + BOUND_WITHIN) / BOUND_WITHIN)):
        cluster.after(BOUND_WITHIN)
    assert cluster.annotation("a", names.BARRED) == "n0"


@pytest.mark.parametrize(
    ("reason", "verdict"),
    [("SchedulerError", REFUSED), ("SchedulerError", ACCEPTED), ("Unschedulable", None)],
)
def test_a_pod_that_the_scheduler_could_have_bound_loses_its_hold(
    cluster: FakeCluster, reason: str, verdict: HoldVerdict | None
) -> None:
    scheduler_reports(cluster, reason, SENTENCE)
    cluster.verdicts = {A: verdict} if verdict else {}
    assert blamed_at_once(cluster)


def test_an_extender_of_an_earlier_version_keeps_no_lease_and_may_be_behind(cluster: FakeCluster) -> None:
    cluster.verdicts = None
    cluster.kube.finish(LEASES, names.VERDICT_LEASE, namespace=names.NAMESPACE)
    scheduler_reports(cluster, "Unschedulable", "0/2 nodes are available.")
    assert spared(cluster)
    for _ in range(2 + int((BEHIND_AT_MOST - 100 + BOUND_WITHIN) / BOUND_WITHIN)):
        cluster.after(BOUND_WITHIN)
    assert cluster.annotation("a", names.BARRED) == "n0"


def test_an_extender_that_answers_again_has_the_whole_time_for_the_bind(cluster: FakeCluster) -> None:
    scheduler_reports(cluster, "SchedulerError", "no answer")
    cluster.after(BOUND_WITHIN)
    scheduler_reports(cluster, "Unschedulable", "0/2 nodes are available.")
    cluster.after(0)
    cluster.after(BOUND_WITHIN - 0.5)
    assert cluster.held() is not None
    cluster.after(0.5)
    assert cluster.held() is None
