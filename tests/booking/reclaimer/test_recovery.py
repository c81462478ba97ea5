"""After an outage of the API server nobody loses a GPU because one agent was heard sooner than another."""

import pytest

from booking.reclaimer.reclaimer import RECOVERS_WITHIN
from cluster.kube.resources import NODES
from tests.booking.reclaimer.scene import Scene
from tests.fakes.objects import a_pod


@pytest.fixture
def scene() -> Scene:
    """Two full nodes; the cheapest pod is on the one whose agent is heard last."""
    scene = Scene()
    for node in ("n0", "n1"):
        scene.add_node(node)
    for index in range(4):
        scene.opportunist(f"costly-{index}", index, node="n0", minutes=100)
        scene.opportunist(f"cheap-{index}", index, node="n1", minutes=1 + index)
    scene.reconcile()
    return scene


def outage(scene: Scene) -> None:
    """A minute and a half without the API server, no pass meanwhile; one agent is heard again at once."""
    scene.clock.advance(90)
    scene.silence("n1")
    scene.renew()


def test_l3_after_an_outage_a_plan_waits_until_every_agent_had_time_to_be_heard(scene: Scene) -> None:
    outage(scene)
    scene.book()
    scene.create(a_pod("hers").of("alice").asks(1))
    scene.reconcile(2)
    assert scene.leaving.left == []

    scene.start_agent("n1")
    scene.reconcile(2)
    assert scene.leaving.left == [("cheap-0", "evicted")]


def test_l3_a_hold_outlives_an_agent_that_could_not_be_heard(scene: Scene) -> None:
    scene.book()
    scene.create(a_pod("hers").of("alice").asks(1))
    scene.reconcile(2)
    assert scene.leaving.left == [("cheap-0", "evicted")]

    outage(scene)
    scene.reconcile(2)
    scene.start_agent("n1")
    scene.reconcile(2)
    assert scene.leaving.left == [("cheap-0", "evicted")]
    assert [hold.node for hold in scene.snapshot().holds.values()] == ["n1"]


@pytest.mark.parametrize(
    ("spec", "ready"),
    [
        ({}, "Unknown"),
        ({"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]}, "True"),
    ],
    ids=["not ready", "tainted"],
)
def test_l3_after_an_outage_a_node_that_kubernetes_does_not_hear_yet_is_waited_for(
    scene: Scene, spec: dict[str, object], ready: str
) -> None:
    scene.book()
    scene.create(a_pod("hers").of("alice").asks(1))
    scene.reclaimer.reconcile()
    scene.reconcile()
    before = scene.kube.raw(NODES, "n1")
    scene.clock.advance(90)
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    scene.kube.put(NODES, {**before, "spec": spec, "status": status})
    scene.renew()
    scene.reconcile(3)
    assert [hold.node for hold in scene.snapshot().holds.values()] == ["n1"]

    scene.kube.put(NODES, {**scene.kube.raw(NODES, "n1"), "spec": {}, "status": {}})
    scene.reconcile(3)
    assert scene.leaving.left == [("cheap-0", "evicted")]


def test_an_agent_that_stays_unresponsive_is_not_waited_for_longer(scene: Scene) -> None:
    outage(scene)
    scene.book()
    scene.create(a_pod("hers").of("alice").asks(1))
    for _ in range(4):
        scene.after(RECOVERS_WITHIN / 3)
    scene.reconcile(2)
    assert [name for name, _ in scene.leaving.left] == ["costly-0"]
