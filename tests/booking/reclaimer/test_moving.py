"""While nobody has been evicted, a place without victims is taken instead of theirs (law L3)."""

import pytest

from booking.eviction_settings import EvictionSettings
from booking.reclaimer.holds.hold_controller import BIND_DEADLINE
from cluster import names
from cluster.kube.resources import PODS
from tests.booking.reclaimer.scene import Scene


@pytest.fixture
def scene() -> Scene:
    """Alice's booked pod waits; ``b3`` has its notice to leave for it in five minutes."""
    scene = Scene(terms=EvictionSettings(notice_seconds=300))
    scene.add_node()
    scene.fill()
    scene.book()
    scene.waiting("a")
    scene.reconcile(2)
    return scene


def hold_writes(scene: Scene) -> int:
    return sum(call.verb == "PATCH" and names.HOLD in str(call.body) for call in scene.kube.calls)


def test_a_gpu_that_becomes_free_during_the_notice_spares_the_victim(scene: Scene) -> None:
    assert scene.annotation("b3", names.NOTICE)
    scene.gone("b0")
    scene.after(1)
    assert (scene.kept().devices, scene.kept().victims) == (("GPU-n0-0",), ())
    scene.after(1)
    assert scene.annotation("b3", names.NOTICE) is None
    assert scene.reasons("b3") == [names.EVICTION_NOTICE, names.EVICTION_WITHDRAWN]
    scene.bind("a", 0)
    scene.after(400)
    assert scene.evicted() == []


def test_the_hold_moves_once_and_is_bound_to_as_any(scene: Scene) -> None:
    scene.gone("b0")
    for _ in range(3):
        scene.after(BIND_DEADLINE)
    assert hold_writes(scene) == 2
    assert scene.reasons("a") == [names.GPUS_KEPT, names.GPUS_KEPT]
    assert scene.kept().devices == ("GPU-n0-0",)


def test_at_the_last_moment_of_the_notice_it_is_not_too_late(scene: Scene) -> None:
    scene.gone("b0")
    scene.after(300)
    scene.after(1)
    assert scene.evicted() == []
    assert scene.kept().victims == ()


def test_once_the_victim_has_been_evicted_its_devices_are_waited_for(scene: Scene) -> None:
    scene.after(300)
    assert scene.evicted() == ["b3"]
    scene.gone("b0")
    scene.after(1)
    assert scene.kept().devices == ("GPU-n0-3",)


def test_what_another_booked_pod_counts_on_ends_no_hold(scene: Scene) -> None:
    scene.book("b-2")
    scene.waiting("c")
    scene.gone("b0")
    scene.after(1)
    assert scene.held("c") is None
    assert scene.kept().victims == ("uid-b3",)


def test_of_two_that_wait_for_victims_one_takes_what_became_free(scene: Scene) -> None:
    scene.book("b-2")
    scene.waiting("c")
    scene.reconcile(2)
    assert scene.kept("c").victims == ("uid-b2",)
    scene.gone("b0")
    scene.after(1)
    scene.after(1)
    assert sorted([scene.kept("a").victims, scene.kept("c").victims]) == [(), ("uid-b2",)]
    assert scene.annotation("b3", names.NOTICE) is None
    assert scene.annotation("b2", names.NOTICE)


def test_a_gpu_of_a_node_that_is_barred_for_the_pod_ends_no_hold(scene: Scene) -> None:
    scene.annotate("a", names.BARRED, "n1")
    scene.add_node("n1")
    scene.after(1)
    assert scene.kept().victims == ("uid-b3",)


def test_a_pod_of_two_is_moved_where_its_own_free_device_and_another_are_enough() -> None:
    scene = Scene(terms=EvictionSettings(notice_seconds=300))
    scene.add_node()
    scene.fill()
    scene.gone("b3")
    scene.book(count=2)
    scene.waiting("a", 2)
    scene.reconcile()
    scene.after(BIND_DEADLINE)
    assert scene.kept().victims == ("uid-b2",)
    scene.gone("b0")
    scene.after(1)
    assert (sorted(scene.kept().devices), scene.kept().victims) == (["GPU-n0-0", "GPU-n0-3"], ())


def test_a_process_that_starts_again_during_the_notice_moves_as_well(scene: Scene) -> None:
    scene.restart()
    scene.gone("b0")
    scene.reconcile(2)
    assert scene.kept().victims == ()
    assert scene.evicted() == []


def test_a_move_that_is_refused_is_tried_again(scene: Scene) -> None:
    scene.gone("b0")
    scene.sync()
    raw = scene.kube.raw(PODS, "a", namespace="default")
    scene.kube.put(PODS, raw | {"status": {"phase": "Pending", "message": "somebody writes to it"}})
    scene.reclaimer.reconcile()
    assert scene.kept().victims == ("uid-b3",)
    scene.after(1)
    assert scene.kept().victims == ()
