from cProfile import Profile

import pytest

from cluster import names
from cluster.decide.explain import why_waiting
from cluster.objects.pods import Pod
from extender.pending_reasons import AGAIN, EVERY, PendingReasons
from tests.extender.cluster import Cluster
from tests.fakes.objects import A100, PodBuilder, a_pod


class Told:
    """A cluster, and what was told to whom."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.add_node("n0")
        self.events: list[tuple[str, str, str]] = []
        self.problem: str | None = None
        self.is_full = False
        self.attempts = 0
        self.explain = PendingReasons(
            self.cluster.state, self.cluster.clock, self._tell, lambda: self.problem
        )

    def _tell(self, pod: Pod, reason: str, message: str) -> bool:
        self.attempts += 1
        if not self.is_full:
            self.events.append((pod.metadata.name, reason, message))
        return not self.is_full


@pytest.fixture
def told() -> Told:
    return Told()


def test_a_pod_too_big_for_every_node_is_told_once(told: Told) -> None:
    told.cluster.create(a_pod().asks(9).unschedulable())

    for _ in range(3):
        told.explain.reconcile()

    assert told.events == [
        ("p", names.WAITING_FOR_GPU, "The pod asks for 9 GPUs, but no node has more than 4.")
    ]


def test_what_could_not_be_told_is_told_later(told: Told) -> None:
    for name in ("p", "q"):
        told.cluster.create(a_pod(name).asks(9).unschedulable())
    told.is_full = True
    told.explain.reconcile()
    assert not told.events
    assert told.attempts == 1

    told.is_full = False
    told.explain.reconcile()
    told.explain.reconcile()

    assert sorted(name for name, _, _ in told.events) == ["p", "q"]


def test_another_reason_is_told_too(told: Told) -> None:
    told.cluster.create(a_pod().asks(2).wants(A100).unschedulable())
    told.cluster.create(a_pod("q").asks(1).on("n0", {"main": ("GPU-n0-0",)}))
    told.explain.reconcile()

    everything = tuple(f"GPU-n0-{index}" for index in range(4))
    told.cluster.create(a_pod("r").asks(4).on("n0", {"main": everything}))
    told.explain.reconcile()

    assert [message for _, _, message in told.events] == [
        f"No node has 2 free GPUs of model {A100}.",
        f"All 2 healthy GPUs of model {A100} are in use.",
    ]


def test_a_pod_that_the_scheduler_has_not_tried_yet_is_told_nothing(told: Told) -> None:
    told.cluster.create(a_pod().asks(9))

    told.explain.reconcile()

    assert told.events == []


@pytest.mark.parametrize("builder", [a_pod(), a_pod().asks(9).scheduled_by("default-scheduler")])
def test_pods_that_are_not_ours_are_told_nothing(told: Told, builder: PodBuilder) -> None:
    told.cluster.create(builder.unschedulable())

    told.explain.reconcile()

    assert told.events == []


def test_a_pod_that_fits_by_now_is_told_nothing(told: Told) -> None:
    told.cluster.create(a_pod().asks(1).unschedulable())

    told.explain.reconcile()

    assert told.events == []


def test_l6_nothing_is_told_while_the_picture_is_not_trusted(told: Told) -> None:
    told.cluster.create(a_pod().asks(9).unschedulable())
    told.problem = "no news"

    told.explain.reconcile()

    assert told.events == []


def test_a_pod_made_anew_is_told_again(told: Told) -> None:
    pod = told.cluster.create(a_pod().asks(9).unschedulable())
    told.explain.reconcile()
    told.cluster.pods.remove(pod)
    told.explain.reconcile()

    told.cluster.create(a_pod("q").asks(9).unschedulable())
    told.explain.reconcile()

    assert [name for name, _, _ in told.events] == ["p", "q"]


def test_of_gpus_that_are_kept_for_a_pod_the_reclaimer_tells_and_nobody_else(told: Told) -> None:
    told.cluster.create(a_pod("victim").asks(1).on("n0", {"main": ("GPU-n0-0",)}))
    told.cluster.create(a_pod().asks(1).kept("n0", "GPU-n0-0").unschedulable())

    for _ in range(2):
        told.explain.reconcile()

    assert told.events == []


def test_a_sentence_that_is_true_again_is_told_again_after_a_while(told: Told) -> None:
    told.cluster.create(a_pod().asks(2).wants(A100).unschedulable())
    told.cluster.create(a_pod("q").asks(1).on("n0", {"main": ("GPU-n0-0",)}))
    rest = told.cluster.create(a_pod("r").asks(3).on("n0", {"main": tuple(f"GPU-n0-{i}" for i in (1, 2, 3))}))
    in_use = f"All 2 healthy GPUs of model {A100} are in use."
    too_few = f"No node has 2 free GPUs of model {A100}."

    def looks() -> list[str]:
        for _ in range(3):
            told.explain.reconcile()
            told.cluster.clock.advance(EVERY)
        return [message for _, _, message in told.events]

    assert looks() == [in_use]
    told.cluster.pods.remove(rest)
    assert looks() == [in_use, too_few]
    told.cluster.create(a_pod("s").asks(3).on("n0", {"main": tuple(f"GPU-n0-{i}" for i in (1, 2, 3))}))
    assert looks() == [in_use, too_few]
    told.cluster.clock.advance(AGAIN)
    assert looks() == [in_use, too_few, in_use]
    told.cluster.clock.advance(AGAIN)
    assert looks() == [in_use, too_few, in_use]


def test_a_booked_pod_waits_for_the_booked_model(told: Told) -> None:
    told.cluster.book()
    told.cluster.create(a_pod("q").asks(2).on("n0", {"main": ("GPU-n0-0", "GPU-n0-1")}))
    told.cluster.create(a_pod().of("alice").asks(1).unschedulable())

    told.explain.reconcile()

    assert told.events == [("p", names.WAITING_FOR_GPU, f"All 2 healthy GPUs of model {A100} are in use.")]


def test_pods_that_wait_for_the_same_and_for_something_else_are_each_told_what_is_true_of_them(
    told: Told,
) -> None:
    everything = tuple(f"GPU-n0-{index}" for index in range(4))
    told.cluster.create(a_pod("holder").asks(4).on("n0", {"main": everything}))
    for name in ("p", "q"):
        told.cluster.create(a_pod(name).asks(1).wants(A100).unschedulable())
    told.cluster.create(a_pod("r").asks(1).unschedulable())
    told.cluster.create(a_pod("s").asks(5).unschedulable())

    told.explain.reconcile()

    in_use = f"All 2 healthy GPUs of model {A100} are in use."
    assert {name: message for name, _, message in told.events} == {
        "p": in_use,
        "q": in_use,
        "r": "All 4 healthy GPUs are in use.",
        "s": "The pod asks for 5 GPUs, but no node has more than 4.",
    }


def test_all_nodes_are_looked_at_once_for_pods_that_wait_for_the_same_and_again_when_one_changes(
    told: Told,
) -> None:
    for name in ("p", "q", "r"):
        told.cluster.create(a_pod(name).asks(9).unschedulable())

    def looks() -> int:
        profile = Profile()
        profile.runcall(told.explain.reconcile)
        return sum(entry.callcount for entry in profile.getstats() if entry.code is why_waiting.__code__)

    assert looks() == 1
    assert looks() == 0
    told.cluster.add_node("n1")
    assert looks() == 1


def test_a_pod_that_waits_behind_our_gate_is_told_though_the_scheduler_has_not_tried_it(told: Told) -> None:
    told.cluster.create(a_pod().asks(9).behind())

    told.explain.reconcile()

    assert told.events == [
        ("p", names.WAITING_FOR_GPU, "The pod asks for 9 GPUs, but no node has more than 4.")
    ]
