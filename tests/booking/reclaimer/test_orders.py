"""An administrator's order evicts the pod that it is written on, booked or not, and nobody else."""

from datetime import timedelta
from typing import Any

import pytest

from cluster import names
from cluster.kube.resources import PODS
from cluster.objects.evict_orders import EvictOrder, encode_order
from tests.booking.reclaimer.scene import Scene
from tests.fakes.objects import EPOCH

ORDER = encode_order(EvictOrder(by="root", reason="the rack is on fire", at=EPOCH))


@pytest.fixture
def scene() -> Scene:
    """Alice's booked pod ``a`` and bob's opportunistic pod ``b`` run on one node."""
    scene = Scene()
    scene.add_node()
    scene.book()
    scene.waiting("a")
    scene.bind("a", 0)
    scene.opportunist("b", 1)
    scene.reconcile(2)
    return scene


@pytest.mark.parametrize("name", ["a", "b"])
def test_the_pod_that_an_order_names_is_evicted_once_with_who_ordered_it_and_why(
    scene: Scene, name: str
) -> None:
    scene.annotate(name, names.EVICT, ORDER)
    scene.reconcile(3)
    assert scene.leaving.left == [(name, "evicted")]
    why = scene.leaving.why[name]
    assert why.event_reason == names.EVICTED_BY_ADMINISTRATOR
    assert why.message == "The administrator root has ordered that this pod must go: the rack is on fire"
    assert why.back == "without-gpu"


def test_it_comes_back_as_its_annotation_says(scene: Scene) -> None:
    scene.annotate("a", names.ON_EVICT, "requeue")
    scene.annotate("a", names.EVICT, ORDER)
    scene.reconcile(2)
    assert scene.leaving.why["a"].back == "as-it-was"


@pytest.mark.parametrize("text", ["", "true", "{}", '{"by": "root"}', '{"by": 1, "reason": 2, "at": 3}'])
def test_what_is_no_order_evicts_nobody(scene: Scene, text: str) -> None:
    scene.annotate("a", names.EVICT, text)
    scene.reconcile(3)
    assert scene.leaving.left == []


def test_an_order_that_is_taken_back_is_none(scene: Scene) -> None:
    scene.annotate("a", names.EVICT, ORDER)
    scene.leaving.meanwhile = lambda: (scene.annotate("a", names.EVICT, None), scene.sync())
    scene.reconcile()
    assert scene.leaving.left == []


def test_a_disruption_budget_is_waited_for(scene: Scene) -> None:
    scene.leaving.protected.add("b")
    scene.annotate("b", names.EVICT, ORDER)
    scene.reconcile(2)
    assert scene.leaving.left == []
    assert scene.pod("b").metadata.uid in scene.leaving.wanted
    scene.leaving.protected.clear()
    scene.clock.advance(2)
    scene.renew()
    scene.reconcile()
    assert scene.leaving.left == [("b", "evicted")]


def test_on_a_node_that_is_unresponsive_nobody_is_evicted(scene: Scene) -> None:
    scene.clock.advance(timedelta(minutes=5).total_seconds())
    scene.annotate("a", names.EVICT, ORDER)
    scene.reconcile(3)
    assert scene.leaving.left == []


@pytest.mark.parametrize(
    "metadata",
    [
        {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d-1"}]},
        {"annotations": {names.STATIC_POD: "x"}},
    ],
)
def test_what_never_leaves_does_not_leave_by_order(scene: Scene, metadata: dict[str, Any]) -> None:
    scene.kube.patch(PODS, "a", {"metadata": metadata}, namespace="default")
    scene.annotate("a", names.EVICT, ORDER)
    scene.reconcile(3)
    assert scene.leaving.left == []
