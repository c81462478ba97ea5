"""Hold, notice, eviction, comeback, end of the booking: each single call to the API server goes wrong once.

The calls are those that an undisturbed run has made, reads as well, so a new call is covered by itself.
Background calls are made first or last: either way a process that dies has made all calls before that one,
and none after.
"""

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from booking.controller.reclaimer.executor import Executor, in_turn
from tests.booking.controller.reclaimer.failing_calls import FAULTS, KILLS, Fault, Scenario
from tests.fakes.aside import afterwards


@functools.cache
def undisturbed(on_evict: str | None = None, executor: Executor = in_turn) -> Scenario:
    scenario = Scenario(on_evict=on_evict, executor=executor)
    scenario.play()
    return scenario


def disturbed(
    faults: dict[int, Fault], on_evict: str | None = None, executor: Executor = in_turn
) -> Scenario:
    scenario = Scenario(on_evict=on_evict, executor=executor)
    scenario.faulty.faults = faults
    scenario.play(lambda now: now.ending() == undisturbed(on_evict).ending())
    return scenario


def points(on_evict: str | None = None, executor: Executor = in_turn) -> range:
    return range(1, len(undisturbed(on_evict, executor).faulty.calls) + 1)


def test_background_calls_change_the_order_of_the_calls_and_nothing_else() -> None:
    first, last = undisturbed(), undisturbed(executor=afterwards)
    assert first.faulty.calls != last.faulty.calls
    assert set(first.faulty.calls) == set(last.faulty.calls)
    assert [call for call in first.faulty.calls if _is_write(call)] == [
        call for call in last.faulty.calls if _is_write(call)
    ]
    assert first.ending() == last.ending()


def _is_write(call: str) -> bool:
    """Whether something is stored by it; creations of pods are left out, since a dry run is one, too."""
    return not call.startswith(("get", "list")) and call != "create pods"


def test_without_faults_alice_is_served_and_both_pods_come_back_without_a_gpu() -> None:
    calls, ending = undisturbed().faulty.calls, undisturbed().ending()
    assert ending["created"] == ["a", "b3"]
    assert (ending["released"], ending["templates"]) == (True, 0)
    for name in ("a", "b3"):
        assert (ending[name]["first"], ending[name]["comes from the first"]) == (False, True)
        assert (ending[name]["asks"], ending[name]["finalizers"], ending[name]["booking"]) == (
            False,
            None,
            None,
        )
    assert [ending[name]["first"] for name in ("b0", "b1", "b2")] == [True] * 3
    written = {call for call in calls if not call.startswith(("get", "list"))}
    assert written >= {
        "patch pods",
        "create pods",
        "create podtemplates",
        "create pods eviction",
        "patch podtemplates",
        "delete podtemplates",
        "patch bookings status",
        "patch pods status",
        "delete pods",
    }


@pytest.mark.parametrize("call", points())
@pytest.mark.parametrize("fault", FAULTS)
def test_any_fault_in_one_call_leads_to_the_same_end(fault: Fault, call: int) -> None:
    scenario = disturbed({call: fault})
    assert scenario.ending() == undisturbed().ending()
    assert scenario.deaths == (1 if fault in KILLS else 0)


@pytest.mark.parametrize("call", points(executor=afterwards))
@pytest.mark.parametrize("fault", FAULTS)
def test_any_fault_in_one_call_leads_to_the_same_end_when_background_calls_come_last(
    fault: Fault, call: int
) -> None:
    scenario = disturbed({call: fault}, executor=afterwards)
    assert scenario.ending() == undisturbed().ending()
    assert scenario.deaths == (1 if fault in KILLS else 0)


def test_without_faults_a_pod_that_asked_to_wait_comes_back_and_requests_its_gpu() -> None:
    ending = undisturbed("requeue").ending()
    assert ending["created"] == ["a", "b3"]
    assert (ending["b3"]["asks"], ending["b3"]["GPUs"], ending["b3"]["comes from the first"]) == (
        True,
        [],
        True,
    )


@pytest.mark.parametrize("call", points("requeue"))
@pytest.mark.parametrize("fault", KILLS)
def test_a_pod_that_asked_to_wait_comes_back_the_same_when_the_process_is_killed_at_any_call(
    fault: Fault, call: int
) -> None:
    scenario = disturbed({call: fault}, "requeue")
    assert scenario.ending() == undisturbed("requeue").ending()
    assert scenario.deaths == 1


def test_without_faults_a_pod_that_asked_to_be_deleted_is_gone_and_alice_is_served() -> None:
    ending = undisturbed("delete").ending()
    assert (ending["created"], ending["templates"], "b3" in ending) == ([], 0, False)
    assert ending["a"]["GPUs"]


@pytest.mark.parametrize("call", points("delete"))
@pytest.mark.parametrize("fault", FAULTS)
def test_a_pod_that_asked_to_be_deleted_is_gone_after_any_fault_in_one_call(fault: Fault, call: int) -> None:
    scenario = disturbed({call: fault}, "delete")
    assert scenario.ending() == undisturbed("delete").ending()


@pytest.mark.parametrize("call", points())
def test_a_second_kill_at_one_of_the_next_calls_leads_to_the_same_end(call: int) -> None:
    for again in (1, 3):
        scenario = disturbed({call: "killed after", call + again: "killed after"})
        assert scenario.ending() == undisturbed().ending(), again


@given(
    faults=st.dictionaries(st.integers(1, 80), st.sampled_from(FAULTS), max_size=30),
)
@settings(max_examples=40)
def test_many_faults_of_many_kinds_lead_to_the_same_end_once_they_stop(
    faults: dict[int, Fault],
) -> None:
    scenario, end = Scenario(), undisturbed().ending_for_any_victim()
    scenario.faulty.faults = faults
    scenario.play(lambda now: now.ending_for_any_victim() == end)
    assert scenario.ending_for_any_victim() == end
