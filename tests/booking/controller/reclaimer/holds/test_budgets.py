"""A booked pod that only disruption budgets keep waiting: for how long they are respected."""

from datetime import timedelta

import pytest

from booking.eviction.settings import EvictionSettings
from cluster import event_reasons, names
from cluster.kube.errors import Refusal, Request, refused
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH

LIMIT = 120.0
BOBS = ("b0", "b1", "b2", "b3")


def cluster_with(*protected: str, limit: float | None = LIMIT) -> FakeCluster:
    """Alice's booked pod waits; bob's four have all A100s, some are protected by budgets."""
    cluster = FakeCluster(terms=EvictionSettings(budget_override_seconds=limit)).contended()
    cluster.evictor.protected.update(protected)
    return cluster


def wait(cluster: FakeCluster, seconds: float) -> None:
    """Time passes in small steps, two passes in each."""
    for _ in range(int(seconds)):
        cluster.after(1)
        cluster.reconcile()


def since(cluster: FakeCluster) -> str | None:
    return cluster.annotation("a", names.BUDGETS_SINCE)


def overridden(cluster: FakeCluster) -> list[str]:
    return [name for name, why in cluster.evictor.why.items() if why.overrides_budget]


def test_after_the_limit_a_budget_is_overridden_and_the_override_is_recorded() -> None:
    cluster = cluster_with(*BOBS)
    wait(cluster, 10)
    assert since(cluster) is not None
    assert since(cluster) >= f"{EPOCH:%Y-%m-%dT%H:%M:%S}"
    wait(cluster, LIMIT - 12)
    assert cluster.evicted() == []
    wait(cluster, 12)
    assert cluster.evicted() == ["b3"]
    assert overridden(cluster) == ["b3"]
    assert cluster.reasons("b3").count(event_reasons.BUDGET_OVERRIDDEN) == 1
    (sample, *_) = next(iter(cluster.metrics.budgets_overridden.collect())).samples
    assert sample.value == 1


def test_the_time_continues_when_the_controller_restarts() -> None:
    cluster = cluster_with(*BOBS)
    wait(cluster, 70)
    began = since(cluster)
    for _ in range(5):
        cluster.restart()
        wait(cluster, 5)
    assert since(cluster) == began
    assert cluster.evicted() == []
    cluster.restart()
    wait(cluster, LIMIT - 90)
    assert overridden(cluster) == ["b3"]


def test_a_process_restarted_between_hold_and_eviction_still_overrides_the_budget() -> None:
    cluster = cluster_with(*BOBS)
    wait(cluster, 10)
    cluster.annotate("a", names.BUDGETS_SINCE, f"{EPOCH - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}")
    cluster.reconcile()
    cluster.restart()
    wait(cluster, 5)
    assert overridden(cluster) == ["b3"]


def test_law_l2_a_booked_pod_is_never_evicted_over_its_budget() -> None:
    cluster = cluster_with(*BOBS)
    wait(cluster, LIMIT / 2)
    cluster.book("b-2", user="bob", count=4)
    wait(cluster, 2 * LIMIT)
    assert cluster.evicted() == []
    assert since(cluster) is None


def test_the_time_starts_over_after_the_pod_has_waited_for_another_reason() -> None:
    cluster = cluster_with(*BOBS)
    wait(cluster, LIMIT / 4)
    cluster.lose_agent("n0")
    for _ in range(10):
        cluster.after(10)
    assert since(cluster) is None
    cluster.start_agent("n0")
    wait(cluster, LIMIT - 10)
    assert cluster.evicted() == []
    wait(cluster, 20)
    assert overridden(cluster) == ["b3"]


@pytest.mark.parametrize("text", ["long ago", "2020-01-01T00:00:00", "nan"])
def test_an_unreadable_mark_is_written_again(text: str) -> None:
    cluster = cluster_with(*BOBS)
    cluster.annotate("a", names.BUDGETS_SINCE, text)
    wait(cluster, LIMIT / 2)
    assert cluster.evicted() == []
    assert (since(cluster) or "").startswith(f"{EPOCH:%Y-%m-%dT}")


def test_pods_that_the_api_server_refuses_to_evict_do_not_count_as_protected_by_a_budget() -> None:
    cluster = cluster_with()
    refusal = Refusal(code=500, message="this pod has more than one PodDisruptionBudget")
    cluster.evictor.failing += [refused(Request("POST", "/"), refusal)] * 12
    wait(cluster, 9)
    assert since(cluster) is None
    assert overridden(cluster) == []
