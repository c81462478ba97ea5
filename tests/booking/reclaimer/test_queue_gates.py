"""Pods behind our scheduling gate, and the reclaimer that lets them go."""

import pytest

from booking.eviction_settings import EvictionSettings
from booking.reclaimer.queue_gates import BOUND_WITHIN, DOUBT_AT_MOST
from booking.reclaimer.reclaimer import EVERY
from cluster import names
from cluster.decide.queueing import AHEAD, MOST
from cluster.kube.errors import Refusal, Request, ServerError
from cluster.kube.resources import PODS
from cluster.objects.scheduling_gates import is_queued, other_gates
from tests.booking.reclaimer.scene import Scene
from tests.fakes.objects import a100, a_pod

OTHERS = "kueue.x-k8s.io/admission"


@pytest.fixture
def scene() -> Scene:
    """Four A100s that bob's pods hold, and two that wait for the scheduler with nothing free."""
    found = Scene(terms=EvictionSettings(queue_gate=True))
    found.add_node()
    found.fill()
    for name in ("ahead-0", "ahead-1")[:AHEAD]:
        found.waiting(name, user="bob")
    return found


def queue(scene: Scene, *pods: str, gates: tuple[str, ...] = (names.QUEUE,), user: str = "bob") -> None:
    """Pods behind gates, each created after the one before."""
    for place, name in enumerate(pods):
        born = f"2026-11-23T08:59:{place:02}Z"
        scene.create(a_pod(name).of(user).asks(1).behind(*gates), {"metadata": {"creationTimestamp": born}})


def queued(scene: Scene) -> list[str]:
    return sorted(pod.metadata.name for pod in scene.kube.list(PODS).items if is_queued(pod))


def free(scene: Scene, *pods: str) -> None:
    for pod in pods:
        scene.gone(pod)


class TestInTurn:
    def test_nobody_is_ungated_while_nothing_is_free(self, scene: Scene) -> None:
        queue(scene, "p0", "p1", "p2")
        scene.after(60)
        assert queued(scene) == ["p0", "p1", "p2"]

    def test_what_those_before_it_do_not_take_is_the_next_ones(self, scene: Scene) -> None:
        queue(scene, "p0", "p1", "p2", "p3")
        free(scene, "b0", "b1", "b2")
        scene.reconcile(3)
        assert queued(scene) == ["p2", "p3"], "one has room, and one is ahead"
        for index, name in enumerate(("ahead-0", "ahead-1", "p0")):
            scene.bind(name, index)
        scene.reconcile()
        assert queued(scene) == ["p2", "p3"]
        free(scene, "b3")
        scene.reconcile()
        assert queued(scene) == ["p3"], "the one ahead has room"

    def test_a_pod_that_is_not_bound_in_time_is_not_waited_for(self, scene: Scene) -> None:
        queue(scene, "p0", "p1", "p2")
        free(scene, "b0", "b1")
        scene.reconcile(2)
        assert queued(scene) == ["p1", "p2"], "those ahead have room, and are not bound"
        scene.after(BOUND_WITHIN)
        assert queued(scene) == ["p2"]
        scene.after(BOUND_WITHIN)
        assert queued(scene) == []

    def test_another_process_goes_on_and_lets_nobody_go_twice(self, scene: Scene) -> None:
        queue(scene, "p0", "p1", "p2", "p3")
        free(scene, "b0", "b1", "b2")
        scene.reconcile(2)
        scene.restart()
        scene.reconcile(2)
        assert queued(scene) == ["p2", "p3"]

    def test_what_is_refused_is_tried_again(self, scene: Scene) -> None:
        queue(scene, "p0")
        free(scene, "b0", "b1", "b2")
        scene.kube.fail("PATCH", ServerError(Request("PATCH", "pods"), Refusal(code=500)))
        scene.reconcile()
        assert queued(scene) == ["p0"]
        scene.reconcile()
        assert queued(scene) == []

    def test_hundreds_are_ungated_a_few_at_a_time(self, scene: Scene) -> None:
        scene.add_node("n1", *(a100(index, "n1") for index in range(2 * MOST)))
        queue(scene, *(f"p{number:02}" for number in range(50)))
        scene.reconcile()
        assert len(queued(scene)) == 50 - MOST
        scene.reconcile(3)
        assert len(queued(scene)) == 50 - (2 * MOST - AHEAD) - 1


class TestAtOnce:
    def test_a_pod_that_a_booking_covers_now_is_ungated_and_gets_its_gpu(self, scene: Scene) -> None:
        queue(scene, "a", user="alice")
        scene.reconcile()
        assert queued(scene) == ["a"]
        scene.book()
        scene.reconcile(2)
        assert queued(scene) == []
        assert scene.pod("a").metadata.annotation(names.HOLD)

    def test_somebody_elses_gate_stays_where_it_is(self, scene: Scene) -> None:
        queue(scene, "a", gates=(OTHERS, names.QUEUE), user="alice")
        scene.book()
        scene.reconcile(2)
        pod = scene.pod("a")
        assert not is_queued(pod)
        assert other_gates(pod) == (OTHERS,)

    def test_when_the_setting_is_off_nobody_stays_behind(self) -> None:
        scene = Scene()
        scene.add_node()
        scene.fill()
        queue(scene, "p0", "p1", "p2")
        scene.reconcile()
        assert queued(scene) == []


class TestInDoubt:
    def test_l6_nobody_waits_for_long_because_we_do_not_know(self, scene: Scene) -> None:
        queue(scene, "p0", "p1", "p2")
        scene.reconcile()
        scene.unready_reason = "the cache is old"
        scene.after(EVERY)
        scene.after(DOUBT_AT_MOST - 1)
        assert queued(scene) == ["p0", "p1", "p2"]
        scene.after(1)
        assert queued(scene) == []

    def test_a_short_doubt_changes_nothing(self, scene: Scene) -> None:
        queue(scene, "p0")
        scene.reconcile()
        for unready_reason in ("the cache is old", None) * 3:
            scene.unready_reason = unready_reason
            scene.after(DOUBT_AT_MOST - 1)
        assert queued(scene) == ["p0"]

    def test_a_process_that_does_not_lead_ungates_nobody(self, scene: Scene) -> None:
        queue(scene, "p0")
        scene.leads = False
        free(scene, "b0", "b1", "b2")
        scene.after(1)
        scene.unready_reason = "the cache is old"
        for _ in range(3):
            scene.after(DOUBT_AT_MOST)
        assert queued(scene) == ["p0"]
