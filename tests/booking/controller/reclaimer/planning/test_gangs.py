"""Whose pods leave where some belong to a Job: what it loses with them counts, once (law L3)."""

import msgspec
import pytest

from booking.controller.reclaimer.planning.plan import plan
from cluster.fake.merging import merged
from cluster.kube.resources import JOBS, PODS
from cluster.objects.jobs import Job
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import a100

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}


@pytest.fixture
def cluster() -> FakeCluster:
    """Alice may have two A100s; two nodes with two each, which bob's four pods have."""
    cluster = FakeCluster()
    for node in ("n0", "n1"):
        cluster.add_node(node, a100(0, node), a100(1, node))
    cluster.book(count=2, topology="any")
    return cluster


def run(cluster: FakeCluster, name: str, index: int, node: str, *, minutes: float, job: bool = False) -> None:
    cluster.opportunist(name, index, node=node, minutes=minutes)
    if job:
        raw = cluster.kube.raw(PODS, name, namespace="default")
        cluster.kube.put(PODS, merged(raw, {"metadata": {"ownerReferences": [OWNER]}}))


def has_failures_left(cluster: FakeCluster, left: int) -> None:
    raw = {
        "metadata": {"name": "j", "namespace": "default", "uid": "j"},
        "spec": {"backoffLimit": left, "parallelism": 2},
    }
    cluster.cache.of(JOBS).upsert(msgspec.convert(raw, Job))


def victims(cluster: FakeCluster) -> list[str]:
    plans = plan(cluster.snapshot())
    return [uid.removeprefix("uid-") for one in plans for uid in one.hold.victims]


def spread(cluster: FakeCluster) -> None:
    """A pod of the Job on each node, beside an older one."""
    for node in ("n0", "n1"):
        run(cluster, f"job-{node}", 0, node, minutes=10, job=True)
        run(cluster, f"old-{node}", 1, node, minutes=15)


@pytest.mark.parametrize(
    ("left", "chosen"),
    [(2, ["job-n0", "job-n1"]), (1, ["job-n0", "old-n0"]), (0, ["old-n0", "old-n1"])],
    ids=["it survives both", "it survives one", "it fails with one"],
)
def test_each_plan_knows_how_many_failures_those_before_it_leave(
    left: int, chosen: list[str], cluster: FakeCluster
) -> None:
    spread(cluster)
    has_failures_left(cluster, left)
    cluster.waiting("a")
    cluster.waiting("b")
    assert victims(cluster) == chosen


def test_a_job_that_fails_with_one_pod_loses_as_much_with_two(cluster: FakeCluster) -> None:
    for index in (0, 1):
        run(cluster, f"job-{index}", index, "n0", minutes=10, job=True)
        run(cluster, f"old-{index}", index, "n1", minutes=15)
    has_failures_left(cluster, 0)
    cluster.waiting("a", 2)
    (made,) = plan(cluster.snapshot())
    assert [uid.removeprefix("uid-") for uid in made.hold.victims] == ["job-0", "job-1"]
    assert made.lost == 2 * 10 * 60_000_000
