"""A slow API server: the last check and the write need several answers, one after the other."""

import pytest

from booking.controller.reclaimer.evictor import DECIDED_WITHIN
from booking.controller.reclaimer.executor import Executor, in_turn
from cluster.kube.interface import Kube
from cluster.objects.pods import is_terminating
from tests.booking.controller.reclaimer.chain import Chain
from tests.booking.controller.reclaimer.failing_calls import FaultyKube, Scenario
from tests.fakes.aside import afterwards

PASSES = 8


def scenario_with(seconds: float, executor: Executor = in_turn) -> Scenario:
    scenario = Scenario(executor=executor)
    scenario.faulty.takes = lambda: scenario.clock.advance(seconds)
    scenario.play()
    return scenario


@pytest.mark.parametrize("executor", [in_turn, afterwards])
@pytest.mark.parametrize("seconds", [0.3, 0.7, 1.0, 1.5])
def test_evictions_and_ends_are_not_put_off_indefinitely(seconds: float, executor: Executor) -> None:
    ending = scenario_with(seconds, executor).ending()
    assert (ending["created"], ending["released"], ending["templates"]) == (["a", "b3"], True, 0)


def test_no_pod_is_evicted_after_a_check_that_is_too_old_when_its_answer_arrives() -> None:
    scenario = scenario_with(DECIDED_WITHIN + 0.1)
    assert "create pods eviction" not in scenario.faulty.calls
    assert scenario.ending()["created"] == []


class Slow(Chain):
    """A chain whose controller waits for each answer, while the watches deliver what has been written."""

    def __init__(self, seconds: float, executor: Executor) -> None:
        self._seconds = seconds
        super().__init__(executor=executor)

    def api(self) -> Kube:
        """The process under test has a slow API server."""
        slow = FaultyKube(self.kube)
        slow.ours, slow.takes = True, self._wait
        return slow

    def _wait(self) -> None:
        self.clock.advance(self._seconds)
        self.renew()
        self.sync()


@pytest.mark.parametrize("executor", [in_turn, afterwards])
@pytest.mark.parametrize("seconds", [0.3, 0.7, 1.5])
@pytest.mark.parametrize("pods", [1, 4])
def test_with_several_victims_each_pass_continues_where_the_previous_one_was_too_late(
    pods: int, seconds: float, executor: Executor
) -> None:
    slow = Slow(seconds, executor)
    slow.add_node()
    slow.fill()
    slow.book(count=4)
    for number in range(pods):
        slow.waiting(f"a{number}", 4 // pods)
    for _ in range(PASSES):
        slow.clock.advance(1.1)
        slow.renew()
        slow.sync()
        slow.reclaimer.reconcile()
    assert all(is_terminating(slow.pod(f"b{number}")) for number in range(4))
    assert all(slow.held(f"a{number}") for number in range(pods))
