"""The loop: who acts, when, and what one failure costs the others."""

import threading

import pytest

from cluster import names
from cluster.fake.clock import eventually
from cluster.kube.errors import Request, Unreachable
from cluster.objects.hold import Hold
from tests.booking.reclaimer.scene import Scene


@pytest.fixture
def scene() -> Scene:
    """Alice's booked pod waits; bob's four have all A100s."""
    scene = Scene()
    scene.add_node()
    scene.fill()
    scene.book()
    scene.waiting("a")
    return scene


def writes(scene: Scene) -> list[str]:
    return [call.verb for call in scene.kube.calls if call.verb in {"PATCH", "POST", "PUT", "DELETE"}]


def test_a_process_that_does_not_lead_does_nothing(scene: Scene) -> None:
    scene.leads = False
    scene.reconcile(3)
    assert writes(scene) == []


def test_nothing_is_done_while_the_cache_cannot_be_trusted(scene: Scene) -> None:
    scene.unready_reason = "There have been no events of pods from the API server for 150 seconds."
    scene.reconcile(3)
    assert writes(scene) == []
    scene.unready_reason = None
    scene.reconcile(2)
    assert scene.evicted() == ["b3"]


def test_comebacks_that_cannot_be_carried_on_keep_nothing_else_waiting(scene: Scene) -> None:
    scene.leaving.stuck = Unreachable(Request("GET", "/"), "connection refused")
    scene.reconcile(2)
    assert scene.evicted() == ["b3"]


def test_a_pod_that_cannot_be_written_keeps_no_other_waiting(scene: Scene) -> None:
    scene.book(count=2)
    scene.waiting("a2")
    scene.kube.fail("PATCH", Unreachable(Request("PATCH", "/"), "connection refused"))
    scene.reconcile(3)
    assert sorted(scene.evicted()) == ["b2", "b3"]


def test_nobody_else_leaves_for_devices_that_a_pod_gives_back_at_its_end(scene: Scene) -> None:
    """One booking follows another at the same instant: the pod of the first leaves, nobody else need to."""
    scene.gone("a")
    scene.gone("b0")
    scene.end_booking()  # of the fixture
    scene.book("carol", user="carol", end=scene.clock.now().replace(hour=10))
    scene.waiting("c", user="carol")
    scene.bind("c", 0)
    scene.book("dave", user="dave", start=scene.clock.now().replace(hour=10))
    scene.waiting("d", user="dave")
    scene.reconcile()
    assert scene.held("d") is None
    scene.after(3600)
    scene.reconcile(2)
    assert scene.ended() == ["c"]
    assert scene.evicted() == []
    held = scene.held("d")
    assert held is not None
    assert (held.devices, held.victims) == (("GPU-n0-0",), ())


def test_a_device_that_is_not_kept_any_more_is_planned_with_when_everybody_can_see_it(scene: Scene) -> None:
    scene.book("carols", user="carol")
    scene.waiting("c", user="carol")
    scene.gone("b0")
    scene.hold("a", Hold(node="n0", devices=("GPU-n0-0",), at=scene.clock.now()))
    scene.hold("c", Hold(node="n0", devices=("GPU-n0-1",), victims=("uid-none",), at=scene.clock.now()))
    scene.end_booking()
    scene.sync()
    scene.reclaimer.reconcile()
    assert (scene.held("a"), scene.held("c")) == (None, None)
    scene.reclaimer.reconcile()
    assert scene.held("c") is None
    scene.reconcile(2)
    assert scene.held("c") is None  # a device is free for it


def test_a_change_of_the_cache_triggers_the_loop(scene: Scene) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=scene.reclaimer.run, args=(stop,))
    thread.start()
    try:
        scene.sync()
        eventually(lambda: scene.annotation("a", names.HOLD))
        scene.sync()
        eventually(lambda: scene.evicted() == ["b3"])
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive()  # it has not waited for its next pass
