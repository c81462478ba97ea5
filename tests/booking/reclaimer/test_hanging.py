"""Victims that hang, and room that others take: a booked pod waits for neither indefinitely."""

from datetime import timedelta

import pytest

from booking.eviction_settings import EvictionSettings
from cluster import names
from cluster.decide.protection import HANGS_AFTER
from cluster.fake.merging import merged
from cluster.kube.resources import NODES, PODS
from tests.booking.reclaimer.scene import Scene
from tests.fakes.objects import a_pod

GRACE = timedelta(seconds=30)


@pytest.fixture
def scene() -> Scene:
    """``b3`` was evicted for alice's booked pod, with thirty seconds to stop, and does not."""
    scene = Scene()
    scene.add_node()
    scene.fill()
    scene.book()
    scene.waiting("a")
    scene.reconcile(2)
    assert scene.evicted() == ["b3"]
    until = scene.pod("b3").metadata.deletion_timestamp
    assert until == scene.clock.now() + GRACE
    return scene


def test_a_victim_that_hangs_is_not_waited_for_and_another_is_found(scene: Scene) -> None:
    scene.after((GRACE + HANGS_AFTER).total_seconds() - 1)
    assert scene.kept().victims == ("uid-b3",)
    scene.after(1)
    scene.reconcile(2)
    assert scene.kept().victims == ("uid-b2",)
    assert scene.evicted() == ["b3", "b2"]
    assert "default/b3 should have gone long ago" in " ".join(said for _, _, said in scene.events)


def test_what_a_hanging_pod_holds_is_planned_with_for_nobody(scene: Scene) -> None:
    scene.after((GRACE + HANGS_AFTER).total_seconds())
    scene.reconcile(2)
    scene.book("b-2")
    scene.waiting("c")
    scene.reconcile(2)
    assert scene.kept("c").victims == ("uid-b1",)


def test_a_restarted_process_does_not_begin_to_wait_again(scene: Scene) -> None:
    scene.after((GRACE + HANGS_AFTER).total_seconds() - 1)
    scene.restart()
    scene.after(1)
    scene.reconcile(2)
    assert scene.kept().victims == ("uid-b2",)


def test_one_that_goes_at_last_leaves_a_free_gpu(scene: Scene) -> None:
    scene.after((GRACE + HANGS_AFTER).total_seconds())
    scene.reconcile(2)
    scene.gone("b3")
    scene.book("b-2")
    scene.waiting("c")
    scene.reconcile(2)
    assert scene.held("c") is None
    assert scene.evicted() == ["b3", "b2"]


@pytest.fixture
def tight() -> Scene:
    """Alice's pod needs half of the CPUs of either node; on each, bob's pod with a GPU has all of them."""
    scene = Scene(terms=EvictionSettings())
    scene.cache.keep_surroundings()
    for node in ("n0", "n1"):
        scene.add_node(node)
        status = {"status": {"allocatable": {"cpu": "8", "pods": "9"}}}
        scene.kube.put(NODES, merged(scene.kube.raw(NODES, node), status))
    scene.opportunist("b0", 0, node="n0", minutes=1)
    scene.opportunist("b1", 0, node="n1", minutes=60)
    scene.book()
    scene.waiting("a")
    for name, much in (("b0", "8"), ("b1", "8"), ("a", "4")):
        with_cpu(scene, name, much)
    return scene


def with_cpu(scene: Scene, name: str, much: str) -> None:
    raw = scene.kube.raw(PODS, name, namespace="default")
    asks = {"resources": {"requests": {"cpu": much}}}
    raw["spec"]["containers"] = [merged(one, asks) for one in raw["spec"]["containers"]]
    scene.kube.put(PODS, raw)


def without_gpu(scene: Scene, name: str, node: str, cpu: str = "8") -> None:
    """The victim is gone, and what came back without a GPU has CPUs of its already."""
    scene.gone(name)
    scene.create(a_pod(f"{name}-again").of("bob").on(node, {}), {"status": {"phase": "Running"}})
    with_cpu(scene, f"{name}-again", cpu)


def test_room_that_a_returned_victim_takes_costs_nobody_else_on_that_node_for_a_while(tight: Scene) -> None:
    tight.reconcile()
    tight.after(3)
    assert tight.evicted() == ["b0"]
    without_gpu(tight, "b0", "n0")
    tight.opportunist("b2", 1, node="n0", minutes=0)
    tight.reconcile()
    assert tight.annotation("a", names.BARRED) == "n0"
    assert "Nothing is kept for it on node n0 for a while" in " ".join(said for _, _, said in tight.events)
    tight.reconcile(2)
    tight.after(3)
    assert tight.kept().node == "n1"


def test_however_often_room_is_taken_each_node_costs_a_victim_once(tight: Scene) -> None:
    with_cpu(tight, "a", "6")
    for name, node in (("b0", "n0"), ("b1", "n1")):
        tight.reconcile()
        tight.after(3)
        without_gpu(tight, name, node, cpu="2")
        tight.opportunist(f"{name}-new", 1, node=node, minutes=0)
        with_cpu(tight, f"{name}-new", "6")
        tight.reconcile(2)
    for _ in range(20):
        tight.after(3)
    assert tight.evicted() == ["b0", "b1"]
    assert tight.held() is None


def test_a_node_that_is_closed_meanwhile_is_not_barred(tight: Scene) -> None:
    tight.reconcile()
    tight.after(3)
    tight.kube.put(NODES, merged(tight.kube.raw(NODES, "n0"), {"spec": {"unschedulable": True}}))
    tight.reconcile()
    assert tight.annotation("a", names.BARRED) is None
