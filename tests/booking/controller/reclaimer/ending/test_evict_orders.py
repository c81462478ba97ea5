"""An administrator's order evicts the pod that it is written on, booked or not, and no other."""

from datetime import timedelta
from typing import Any

import pytest

from cluster import event_reasons, names
from cluster.kube.errors import Refusal, Request, refused
from cluster.kube.resources import PODS
from cluster.objects.evict_orders import EvictOrder, encode_order
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH

ORDER = encode_order(EvictOrder(by="root", reason="the rack is on fire", at=EPOCH))


@pytest.fixture
def cluster() -> FakeCluster:
    """Alice's booked pod ``a`` and bob's opportunistic pod ``b`` run on one node."""
    cluster = FakeCluster()
    cluster.add_node()
    cluster.book()
    cluster.waiting("a")
    cluster.bind("a", 0)
    cluster.opportunist("b", 1)
    cluster.reconcile(2)
    return cluster


@pytest.mark.parametrize("name", ["a", "b"])
def test_the_pod_that_an_order_names_is_evicted_once_and_the_message_says_by_whom_and_why(
    cluster: FakeCluster, name: str
) -> None:
    cluster.annotate(name, names.EVICT, ORDER)
    cluster.reconcile(3)
    assert cluster.evictor.left == [(name, "evicted")]
    why = cluster.evictor.why[name]
    assert why.event_reason == event_reasons.EVICTED_BY_ADMINISTRATOR
    assert why.message == "The administrator root has ordered that this pod must go: the rack is on fire"
    assert why.back == "without-gpu"


def test_an_order_that_is_withdrawn_has_no_effect(cluster: FakeCluster) -> None:
    cluster.annotate("a", names.EVICT, ORDER)
    cluster.evictor.meanwhile = lambda: (cluster.annotate("a", names.EVICT, None), cluster.sync())
    cluster.reconcile()
    assert cluster.evictor.left == []


def test_an_order_waits_for_a_disruption_budget(cluster: FakeCluster) -> None:
    cluster.evictor.protected.add("b")
    cluster.annotate("b", names.EVICT, ORDER)
    cluster.reconcile(2)
    assert cluster.evictor.left == []
    assert cluster.pod("b").metadata.uid in cluster.evictor.wanted
    cluster.evictor.protected.clear()
    cluster.clock.advance(2)
    cluster.renew()
    cluster.reconcile()
    assert cluster.evictor.left == [("b", "evicted")]


def test_budgets_hold_up_an_order_only_for_a_while_and_its_pod_says_so(cluster: FakeCluster) -> None:
    cluster.evictor.protected.add("b")
    cluster.annotate("b", names.EVICT, ORDER)
    for _ in range(29):
        cluster.after(10)
    assert cluster.evictor.left == []
    for _ in range(9):
        cluster.after(10)
    assert cluster.evictor.left == [("b", "evicted")]
    assert cluster.evictor.why["b"].overrides_budget
    assert cluster.reasons("b") == [event_reasons.EVICTIONS_BLOCKED, event_reasons.BUDGET_OVERRIDDEN]


def test_an_order_that_is_refused_is_tried_less_and_less_often_and_the_reason_is_reported_once(
    cluster: FakeCluster,
) -> None:
    denied = Refusal(code=429, reason="TooManyRequests", message="it is migrated")
    cluster.evictor.failing += [refused(Request("POST", "/"), denied)] * 99
    cluster.annotate("b", names.EVICT, ORDER)
    for _ in range(180):
        cluster.after(1)
    assert 99 - len(cluster.evictor.failing) < 12
    ((_, reason, message),) = [event for event in cluster.events if event[0] == "b"]
    assert (reason, "it is migrated" in message) == (event_reasons.EVICTIONS_BLOCKED, True)


def test_no_pod_of_an_unresponsive_node_is_evicted(cluster: FakeCluster) -> None:
    cluster.clock.advance(timedelta(minutes=5).total_seconds())
    cluster.annotate("a", names.EVICT, ORDER)
    cluster.reconcile(3)
    assert cluster.evictor.left == []


@pytest.mark.parametrize(
    "metadata",
    [
        {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d-1"}]},
        {"annotations": {names.STATIC_POD: "x"}},
    ],
)
def test_a_pod_that_may_never_be_evicted_is_not_evicted_by_order(
    cluster: FakeCluster, metadata: dict[str, Any]
) -> None:
    cluster.kube.patch(PODS, "a", {"metadata": metadata}, namespace="default")
    cluster.annotate("a", names.EVICT, ORDER)
    cluster.reconcile(3)
    assert cluster.evictor.left == []
