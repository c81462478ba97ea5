from cProfile import Profile

import pytest

from cluster import event_reasons
from cluster.decide.explain import why_waiting
from cluster.objects.pods import Pod
from extender.pending.pending_reasons import AGAIN, EVERY, MOST, PendingReasons
from tests.extender.cluster import Cluster
from tests.fakes.objects import A100, PodBuilder, a_pod


class Reports:
    """A cluster, and the Events written on its pods."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.add_node("n0")
        self.events: list[tuple[str, str, str]] = []
        self.problem: str | None = None
        self.is_full = False
        self.attempts = 0
        self.explain = PendingReasons(
            self.cluster.state, self.cluster.clock, self._report, lambda: self.problem
        )

    def _report(self, pod: Pod, reason: str, message: str) -> bool:
        self.attempts += 1
        if not self.is_full:
            self.events.append((pod.metadata.name, reason, message))
        return not self.is_full


@pytest.fixture
def reports() -> Reports:
    return Reports()


def test_a_pod_too_big_for_every_node_is_reported_once(reports: Reports) -> None:
    reports.cluster.create(a_pod().asks(9).unschedulable())

    for _ in range(3):
        reports.explain.reconcile()

    assert reports.events == [
        ("p", event_reasons.WAITING_FOR_GPU, "The pod asks for 9 GPUs, but no node has more than 4.")
    ]


def test_reasons_that_could_not_be_reported_are_reported_later(reports: Reports) -> None:
    for name in ("p", "q"):
        reports.cluster.create(a_pod(name).asks(9).unschedulable())
    reports.is_full = True
    reports.explain.reconcile()
    assert not reports.events
    assert reports.attempts == 1

    reports.is_full = False
    reports.explain.reconcile()
    reports.explain.reconcile()

    assert sorted(name for name, _, _ in reports.events) == ["p", "q"]


def test_nothing_is_reported_on_a_pod_that_the_scheduler_has_not_tried_yet(reports: Reports) -> None:
    reports.cluster.create(a_pod().asks(9))

    reports.explain.reconcile()

    assert reports.events == []


@pytest.mark.parametrize("builder", [a_pod(), a_pod().asks(9).scheduled_by("default-scheduler")])
def test_nothing_is_reported_on_pods_that_are_not_ours(reports: Reports, builder: PodBuilder) -> None:
    reports.cluster.create(builder.unschedulable())

    reports.explain.reconcile()

    assert reports.events == []


def test_l6_nothing_is_reported_while_the_cache_is_not_trusted(reports: Reports) -> None:
    reports.cluster.create(a_pod().asks(9).unschedulable())
    reports.problem = "no news"

    reports.explain.reconcile()

    assert reports.events == []


def test_a_recreated_pod_is_reported_again(reports: Reports) -> None:
    pod = reports.cluster.create(a_pod().asks(9).unschedulable())
    reports.explain.reconcile()
    reports.cluster.pods.remove(pod)
    reports.explain.reconcile()

    reports.cluster.create(a_pod("q").asks(9).unschedulable())
    reports.explain.reconcile()

    assert [name for name, _, _ in reports.events] == ["p", "q"]


def test_gpus_that_are_kept_for_a_pod_are_left_to_the_reclaimer_to_report(reports: Reports) -> None:
    reports.cluster.create(a_pod("victim").asks(1).on("n0", {"main": ("GPU-n0-0",)}))
    reports.cluster.create(a_pod().asks(1).kept("n0", "GPU-n0-0").unschedulable())

    for _ in range(2):
        reports.explain.reconcile()

    assert reports.events == []


def test_a_reason_that_applies_again_is_reported_again_after_a_while(reports: Reports) -> None:
    reports.cluster.create(a_pod().asks(2).wants(A100).unschedulable())
    reports.cluster.create(a_pod("q").asks(1).on("n0", {"main": ("GPU-n0-0",)}))
    rest = reports.cluster.create(
        a_pod("r").asks(3).on("n0", {"main": tuple(f"GPU-n0-{i}" for i in (1, 2, 3))})
    )
    in_use = f"All 2 healthy GPUs of model {A100} are in use."
    too_few = f"No node has 2 free GPUs of model {A100}."

    def after_three_rounds() -> list[str]:
        for _ in range(3):
            reports.explain.reconcile()
            reports.cluster.clock.advance(EVERY)
        return [message for _, _, message in reports.events]

    assert after_three_rounds() == [in_use]
    reports.cluster.pods.remove(rest)
    assert after_three_rounds() == [in_use, too_few]
    reports.cluster.create(a_pod("s").asks(3).on("n0", {"main": tuple(f"GPU-n0-{i}" for i in (1, 2, 3))}))
    assert after_three_rounds() == [in_use, too_few]
    reports.cluster.clock.advance(AGAIN)
    assert after_three_rounds() == [in_use, too_few, in_use]
    reports.cluster.clock.advance(AGAIN)
    assert after_three_rounds() == [in_use, too_few, in_use]


def test_every_waiting_pod_gets_the_reason_for_its_own_request(
    reports: Reports,
) -> None:
    everything = tuple(f"GPU-n0-{index}" for index in range(4))
    reports.cluster.create(a_pod("holder").asks(4).on("n0", {"main": everything}))
    for name in ("p", "q"):
        reports.cluster.create(a_pod(name).asks(1).wants(A100).unschedulable())
    reports.cluster.create(a_pod("r").asks(1).unschedulable())
    reports.cluster.create(a_pod("s").asks(5).unschedulable())

    reports.explain.reconcile()

    in_use = f"All 2 healthy GPUs of model {A100} are in use."
    assert {name: message for name, _, message in reports.events} == {
        "p": in_use,
        "q": in_use,
        "r": "All 4 healthy GPUs are in use.",
        "s": "The pod asks for 5 GPUs, but no node has more than 4.",
    }


def test_all_nodes_are_checked_once_for_equal_requests_and_again_when_one_changes(
    reports: Reports,
) -> None:
    for name in ("p", "q", "r"):
        reports.cluster.create(a_pod(name).asks(9).unschedulable())

    def checks() -> int:
        profile = Profile()
        profile.runcall(reports.explain.reconcile)
        return sum(entry.callcount for entry in profile.getstats() if entry.code is why_waiting.__code__)

    assert checks() == 1
    assert checks() == 0
    reports.cluster.add_node("n1")
    assert checks() == 1


def test_a_pod_that_waits_behind_our_gate_is_reported_before_the_scheduler_has_tried_it(
    reports: Reports,
) -> None:
    reports.cluster.create(a_pod().asks(9).behind())

    reports.explain.reconcile()

    assert reports.events == [
        ("p", event_reasons.WAITING_FOR_GPU, "The pod asks for 9 GPUs, but no node has more than 4.")
    ]


def test_of_very_many_pods_each_round_reports_on_some_of_every_user(reports: Reports) -> None:
    for number in range(2 * MOST):
        reports.cluster.create(a_pod(f"b{number}").of("bob").asks(9).unschedulable())
    reports.cluster.create(a_pod("a").of("alice").asks(9).unschedulable())
    seen: list[set[str]] = []
    for _ in range(3):
        reports.explain.reconcile()
        seen.append({name for name, _, _ in reports.events})
    assert "a" in seen[0]
    assert [len(names) for names in seen] == [MOST, 2 * MOST, 2 * MOST + 1]
