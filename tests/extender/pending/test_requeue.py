from collections.abc import Mapping

import pytest

from cluster import names
from cluster.decide.request import GpuRequest
from cluster.kube.resources import PODS
from cluster.objects.hold import Hold, encode_hold
from cluster.objects.pods import Pod
from extender.pending.rejected_requests import RejectedRequests
from extender.pending.requeue import (
    EVERY_WHILE_SCHEDULING,
    FIRST_PAUSE,
    LONGEST_PAUSE,
    PATIENCE,
    PLAN_CHECKED_EVERY,
    REQUEUE_TRIGGERS,
    Requeue,
)
from extender.state.cluster_state import Rejection
from tests.extender.cluster import Cluster
from tests.fakes.objects import A100, a_pod

NAMESPACE = "gpu-booking"


class Waiting:
    """A pod that was rejected because another holds all A100s."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.add_node("n0")
        self.requeue = Requeue(self.cluster.kube, self.cluster.state, self.cluster.clock, namespace=NAMESPACE)
        held = {"main": ("GPU-n0-0", "GPU-n0-1")}
        self.holder = self.cluster.create(a_pod("holder").asks(2).on("n0", held))
        self.pod: Pod = self.cluster.create(a_pod().asks(1).wants(A100))
        self.cluster.ask(self.pod)
        self.requeue.reconcile()

    def pass_time(self, seconds: float = PATIENCE, *, rounds: int = 1) -> None:
        """Let time go by, in so many rounds."""
        for _ in range(rounds):
            self.cluster.clock.advance(seconds / rounds)
            self.requeue.reconcile()

    def free(self) -> None:
        """The holder ends."""
        self.cluster.pods.remove(self.holder)

    @property
    def triggers(self) -> int:
        """How often requeueing was triggered."""
        verbs = [call.verb for call in self.cluster.kube.calls if "csistoragecapacities" in call.path]
        # The first time our object is not there: a PATCH in vain, then a POST.
        return len(verbs) - verbs.count("POST")


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


def test_rejected_pods_are_checked_less_often_while_the_scheduler_asks(waiting: Waiting) -> None:
    waiting.pass_time(1, rounds=10)
    waiting.requeue._requests = watched = Watched(waiting.cluster.state, waiting.cluster.clock)
    for _ in range(40):
        waiting.cluster.ask(waiting.pod)
        waiting.pass_time(PATIENCE)
    assert 0 < watched.reads <= 40 * PATIENCE / EVERY_WHILE_SCHEDULING


class Watched(RejectedRequests):
    """Counts how often the requests of the rejected pods are read."""

    reads = 0

    def now(self, rejections: Mapping[str, Rejection]) -> dict[str, GpuRequest]:
        """Count it."""
        self.reads += 1
        return super().now(rejections)


def test_pods_are_checked_only_now_and_then_while_nothing_changes(waiting: Waiting) -> None:
    waiting.pass_time(1, rounds=10)
    waiting.requeue._requests = watched = Watched(waiting.cluster.state, waiting.cluster.clock)
    waiting.pass_time(10 * PLAN_CHECKED_EVERY, rounds=200)
    assert watched.reads <= 10

    watched.reads = 0
    waiting.cluster.change("p", "said", "something")
    waiting.pass_time()
    assert watched.reads == 1


def test_while_a_requeue_is_in_vain_pods_are_checked_only_before_the_next_trigger(waiting: Waiting) -> None:
    waiting.free()
    waiting.pass_time(20, rounds=200)
    before, checked_at = waiting.triggers, set()

    for _ in range(400):
        waiting.pass_time(0.1)
        checked_at.add(waiting.requeue._checked_at)

    assert waiting.triggers > before
    assert len(checked_at) <= 40 / PLAN_CHECKED_EVERY + waiting.triggers - before + 1


def test_a_pod_that_now_fits_triggers_a_requeue(waiting: Waiting) -> None:
    waiting.free()

    waiting.pass_time(2 * PATIENCE, rounds=2)

    assert waiting.triggers == 1
    assert (
        waiting.cluster.kube.raw(REQUEUE_TRIGGERS, names.REQUEUE_TRIGGER, namespace=NAMESPACE)[
            "storageClassName"
        ]
        == names.REQUEUE_TRIGGER
    )


def test_a_gpu_freed_on_another_node_triggers_a_requeue_at_once_after_any_earlier_one(
    waiting: Waiting,
) -> None:
    """The scheduler was called in vain for the first: something that we do not see is in the way there."""
    waiting.cluster.add_node("n1")
    held = {"main": ("GPU-n1-0", "GPU-n1-1")}
    other = waiting.cluster.create(a_pod("other").asks(2).on("n1", held))
    waiting.cluster.ask(waiting.pod, "n0", "n1")
    waiting.free()
    waiting.pass_time(30, rounds=300)
    before = waiting.triggers
    assert before > 1

    waiting.cluster.pods.remove(other)
    waiting.pass_time(3 * PATIENCE, rounds=3)

    assert waiting.triggers == before + 1
    waiting.pass_time(FIRST_PAUSE, rounds=20)
    assert waiting.triggers == before + 2


def test_a_gpu_that_was_taken_again_triggers_a_requeue_when_it_is_free_once_more(waiting: Waiting) -> None:
    """Another node still has one, where something that we do not see is in the way."""
    waiting.cluster.add_node("n1")
    waiting.cluster.ask(waiting.pod, "n0", "n1")
    other = waiting.cluster.create(a_pod("other").asks(2).on("n1", {"main": ("GPU-n1-0", "GPU-n1-1")}))
    waiting.cluster.ask(waiting.pod, "n0", "n1")
    waiting.cluster.pods.remove(other)
    waiting.pass_time(1, rounds=20)
    waiting.free()
    waiting.pass_time(30, rounds=300)
    taken = waiting.cluster.create(a_pod("taken").asks(2).on("n0", {"main": ("GPU-n0-0", "GPU-n0-1")}))
    waiting.pass_time(PATIENCE)
    before = waiting.triggers

    waiting.cluster.pods.remove(taken)
    waiting.pass_time(3 * PATIENCE, rounds=3)

    assert waiting.triggers == before + 1


def test_the_scheduler_gets_a_moment_to_try_by_itself(waiting: Waiting) -> None:
    waiting.free()
    waiting.pass_time()
    waiting.cluster.ask(waiting.pod)

    waiting.pass_time(10, rounds=40)

    assert waiting.triggers == 0


@pytest.mark.parametrize("rounds", [1, 3, 1000])
@pytest.mark.parametrize("is_alone", [True, False])
def test_a_change_between_an_answer_and_its_recording_is_noticed(
    waiting: Waiting, rounds: int, *, is_alone: bool
) -> None:
    """A busy extender takes some hundredths of a second between the two, one that was stopped any time."""
    if not is_alone:
        waiting.cluster.ask(waiting.cluster.create(a_pod("large").asks(9)))
        waiting.pass_time(1, rounds=10)
    rejection = waiting.cluster.state.rejections.pop(waiting.pod.metadata.uid)
    waiting.free()
    waiting.pass_time(rounds * PATIENCE, rounds=rounds)
    waiting.cluster.state.note(rejection)

    waiting.pass_time(0.5, rounds=20)

    assert waiting.triggers == 1


def test_an_agent_that_returns_triggers_a_requeue() -> None:
    waiting = Waiting()
    waiting.free()
    waiting.cluster.clock.advance(100)
    waiting.requeue.reconcile()
    waiting.cluster.ask(waiting.pod)
    assert waiting.triggers == 0

    waiting.cluster.renew("n0")
    waiting.pass_time(3 * EVERY_WHILE_SCHEDULING, rounds=3)

    assert waiting.triggers == 1


def test_a_requeue_in_vain_is_tried_again_with_growing_pauses(waiting: Waiting) -> None:
    waiting.free()
    waiting.pass_time(2 * PATIENCE, rounds=2)

    waiting.pass_time(FIRST_PAUSE)
    waiting.pass_time(FIRST_PAUSE)
    assert waiting.triggers == 2
    waiting.pass_time(FIRST_PAUSE)
    assert waiting.triggers == 3
    waiting.pass_time(3600, rounds=3600)
    assert waiting.triggers < 10 + 3600 / LONGEST_PAUSE


def test_a_requeue_does_not_change_the_pod_itself(waiting: Waiting) -> None:
    before = waiting.cluster.kube.raw(PODS, "p", namespace="default")
    waiting.free()

    waiting.pass_time(2 * PATIENCE, rounds=2)

    assert waiting.cluster.kube.raw(PODS, "p", namespace="default") == before


def test_a_changed_hold_triggers_a_requeue_for_its_pod() -> None:
    waiting = Waiting()
    waiting.free()
    pinned = waiting.cluster.create(a_pod("pinned").asks(1).kept("n1", "GPU-n1-0"))
    waiting.cluster.add_node("n1")
    waiting.cluster.create(a_pod("victim").asks(1).on("n1", {"main": ("GPU-n1-0",)}))
    waiting.cluster.ask(waiting.pod)
    waiting.cluster.ask(pinned, "n0", "n1")
    waiting.pass_time(1, rounds=4)
    assert waiting.triggers == 0

    waiting.cluster.change("pinned", names.HOLD, encode_hold(Hold(node="n0", devices=("GPU-n0-3",))))
    waiting.pass_time(2 * PATIENCE, rounds=2)

    assert waiting.triggers == 1


def test_the_freed_devices_of_a_hold_trigger_a_requeue_for_its_pod() -> None:
    waiting = Waiting()
    pinned = waiting.cluster.create(a_pod("pinned").asks(1).kept("n0", "GPU-n0-1"))
    waiting.cluster.ask(pinned)
    waiting.pass_time(1, rounds=4)

    waiting.free()
    waiting.pass_time(2 * PATIENCE, rounds=2)

    assert waiting.triggers == 1


def test_the_end_of_a_booking_triggers_a_requeue_for_its_pod() -> None:
    waiting = Waiting()
    waiting.cluster.book(days=1)
    booked = waiting.cluster.create(a_pod("booked").of("alice").asks(1))
    waiting.cluster.ask(booked)
    waiting.pass_time(1, rounds=4)
    assert waiting.triggers == 0

    waiting.cluster.clock.advance(24 * 3600)
    waiting.cluster.renew()
    waiting.pass_time(2 * PATIENCE, rounds=2)

    assert waiting.triggers == 1


def test_a_pod_that_the_scheduler_knew_first_is_judged_by_what_filter_saw(waiting: Waiting) -> None:
    early = a_pod("early").asks(1).wants(A100).at(999).obj
    waiting.cluster.ask(early)
    waiting.free()

    waiting.pass_time(3 * EVERY_WHILE_SCHEDULING, rounds=3)

    assert waiting.triggers == 1
