"""A booked pod that only disruption budgets keep waiting: they are respected for as long as settings say."""

from datetime import timedelta

import pytest

from booking.eviction_settings import EvictionSettings
from cluster import names
from cluster.kube.errors import Refusal, Request, refused
from tests.booking.reclaimer.scene import Scene
from tests.fakes.objects import EPOCH

LIMIT = 120.0
BOBS = ("b0", "b1", "b2", "b3")


def scene_of(*protected: str, limit: float | None = LIMIT) -> Scene:
    """Alice's booked pod waits; bob's four have all A100s, some are protected by budgets."""
    scene = Scene(terms=EvictionSettings(budget_override_seconds=limit))
    scene.add_node()
    scene.fill()
    scene.book()
    scene.waiting("a")
    scene.leaving.protected.update(protected)
    return scene


def wait(scene: Scene, seconds: float) -> None:
    """Time passes in small steps, two passes in each."""
    for _ in range(int(seconds)):
        scene.after(1)
        scene.reconcile()


def since(scene: Scene) -> str | None:
    return scene.annotation("a", names.BUDGETS_SINCE)


def overridden(scene: Scene) -> list[str]:
    return [name for name, why in scene.leaving.why.items() if why.overrides_budget]


def test_after_the_limit_the_booking_passes_over_a_budget_and_that_is_on_record() -> None:
    scene = scene_of(*BOBS)
    wait(scene, 10)
    assert since(scene) is not None
    assert since(scene) >= f"{EPOCH:%Y-%m-%dT%H:%M:%S}"
    wait(scene, LIMIT - 12)
    assert scene.evicted() == []
    wait(scene, 12)
    assert scene.evicted() == ["b3"]
    assert overridden(scene) == ["b3"]
    assert scene.reasons("b3").count(names.BUDGET_OVERRIDDEN) == 1
    (sample, *_) = next(iter(scene.metrics.budgets_overridden.collect())).samples
    assert sample.value == 1


def test_without_a_limit_budgets_are_respected_indefinitely_and_nothing_is_written() -> None:
    scene = scene_of(*BOBS, limit=None)
    wait(scene, 3 * LIMIT)
    assert (scene.evicted(), since(scene)) == ([], None)


def test_a_pod_that_no_budget_protects_goes_first_whatever_it_loses() -> None:
    scene = scene_of("b1", "b2", "b3")
    wait(scene, 10)
    assert scene.evicted() == ["b0"]
    assert overridden(scene) == []
    assert since(scene) is None


def test_the_time_goes_on_when_the_controller_starts_again() -> None:
    scene = scene_of(*BOBS)
    wait(scene, 70)
    began = since(scene)
    for _ in range(5):
        scene.restart()
        wait(scene, 5)
    assert since(scene) == began
    assert scene.evicted() == []
    scene.restart()
    wait(scene, LIMIT - 90)
    assert overridden(scene) == ["b3"]


def test_a_process_that_starts_again_between_hold_and_eviction_finds_it_out_again() -> None:
    scene = scene_of(*BOBS)
    wait(scene, 10)
    scene.annotate("a", names.BUDGETS_SINCE, f"{EPOCH - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}")
    scene.reconcile()
    scene.restart()
    wait(scene, 5)
    assert overridden(scene) == ["b3"]


def test_law_l2_a_booked_pod_is_nobodys_to_pass_over() -> None:
    scene = scene_of(*BOBS)
    wait(scene, LIMIT / 2)
    scene.book("b-2", user="bob", count=4)
    wait(scene, 2 * LIMIT)
    assert scene.evicted() == []
    assert since(scene) is None


def test_a_pod_that_waits_for_another_reason_in_between_waits_the_whole_time_again() -> None:
    scene = scene_of(*BOBS)
    wait(scene, LIMIT / 2)
    scene.silence("n0")
    for _ in range(10):
        scene.after(10)
    assert since(scene) is None
    scene.start_agent("n0")
    wait(scene, LIMIT - 10)
    assert scene.evicted() == []
    wait(scene, 20)
    assert overridden(scene) == ["b3"]


@pytest.mark.parametrize("text", ["long ago", "2020-01-01T00:00:00", "nan"])
def test_a_mark_that_cannot_be_read_is_written_again(text: str) -> None:
    scene = scene_of(*BOBS)
    scene.annotate("a", names.BUDGETS_SINCE, text)
    wait(scene, LIMIT / 2)
    assert scene.evicted() == []
    assert (since(scene) or "").startswith(f"{EPOCH:%Y-%m-%dT}")


def test_pods_that_the_api_server_refuses_to_evict_are_not_taken_for_protected_ones() -> None:
    scene = scene_of()
    refusal = Refusal(code=500, message="this pod has more than one PodDisruptionBudget")
    scene.leaving.failing += [refused(Request("POST", "/"), refusal)] * 12
    wait(scene, 9)
    assert since(scene) is None
    assert overridden(scene) == []
