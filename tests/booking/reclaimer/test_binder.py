"""A held pod that nobody could bind costs no second victim and no node its good name (law L3)."""

import pytest

from booking.reclaimer.holds.hold_controller import BOUND_WITHIN
from booking.reclaimer.holds.scheduler_health import BEHIND_AT_MOST
from cluster import names
from cluster.decide.predicates import HELD_NOT_FREE
from cluster.fake.merging import merged
from cluster.kube.resources import PODS
from tests.booking.reclaimer.scene import Scene

NO_ANSWER = (
    'Post "http://127.0.0.1:8880/bind": context deadline exceeded'
    " (Client.Timeout exceeded while awaiting headers)"
)
NOT_READY = "failed filter with extender at URL http://127.0.0.1:8880/filter, code 503"
CUT_OFF = f"binding rejected: {names.NOT_NOW} The API server has not said whether the pod is bound."
REFUSED = "The API server refused the Binding (403 Forbidden)."
DOES_NOT_FIT = "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."


@pytest.fixture
def scene() -> Scene:
    """Alice's booked pod is held, and its victim has left: it could be bound at once."""
    scene = Scene()
    scene.add_node()
    scene.fill()
    scene.book()
    scene.waiting("a")
    scene.reconcile(2)
    scene.gone("b3")
    scene.reconcile()
    return scene


def scheduler_reports(scene: Scene, reason: str, message: str) -> None:
    """kube-scheduler writes this condition on the pod."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    raw = scene.kube.raw(PODS, "a", namespace="default")
    scene.kube.put(PODS, merged(raw, {"status": {"conditions": [condition]}}))


@pytest.mark.parametrize("message", [NO_ANSWER, NOT_READY, CUT_OFF])
def test_an_extender_that_does_not_answer_or_cannot_now_costs_the_pod_nothing(
    scene: Scene, message: str
) -> None:
    scheduler_reports(scene, "SchedulerError", message)
    for _ in range(10):
        scene.after(BOUND_WITHIN)
    assert scene.held() is not None
    assert scene.evicted() == ["b3"]
    assert scene.annotation("a", names.BARRED) is None


def test_an_extender_that_does_not_know_yet_that_the_victim_has_left_costs_the_pod_nothing(
    scene: Scene,
) -> None:
    scheduler_reports(scene, "Unschedulable", f"0/2 nodes are available: {HELD_NOT_FREE}.")
    for _ in range(10):
        scene.after(BOUND_WITHIN)
    assert scene.held() is not None
    assert scene.evicted() == ["b3"]


def test_an_extender_that_disagrees_for_longer_than_events_may_take_keeps_no_gpu_idle(
    scene: Scene,
) -> None:
    scheduler_reports(scene, "Unschedulable", f"0/2 nodes are available: {HELD_NOT_FREE}.")
    for _ in range(2 + int((BEHIND_AT_MOST + BOUND_WITHIN) / BOUND_WITHIN)):
        scene.after(BOUND_WITHIN)
    assert scene.annotation("a", names.BARRED) == "n0"


@pytest.mark.parametrize(
    ("reason", "message"), [("SchedulerError", REFUSED), ("Unschedulable", DOES_NOT_FIT)]
)
def test_a_pod_that_the_scheduler_could_have_bound_loses_its_hold_as_before(
    scene: Scene, reason: str, message: str
) -> None:
    scheduler_reports(scene, reason, message)
    scene.after(0)
    scene.after(BOUND_WITHIN)
    assert scene.annotation("a", names.BARRED) == "n0"


def test_an_extender_that_answers_again_is_given_the_whole_time_for_the_bind(scene: Scene) -> None:
    scheduler_reports(scene, "SchedulerError", NO_ANSWER)
    scene.after(BOUND_WITHIN)
    scheduler_reports(scene, "Unschedulable", DOES_NOT_FIT)
    scene.after(0)
    scene.after(BOUND_WITHIN - 0.5)
    assert scene.held() is not None
    scene.after(0.5)
    assert scene.held() is None
