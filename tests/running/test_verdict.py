"""What is repeated, and how a stage of whole clusters ends."""

import pytest

from tests.running.outcome import AFTERWARDS, COLLECTION, Failure, Played
from tests.running.verdict import Run, to_repeat, verdict

A, B, C = (f"tests/e2e/test_x.py::test_{name}" for name in "abc")
GREEN = Run(0, Played(passed=5))
PASSED = Run(0, Played(passed=1))


def failure(test: str = A, when: str = "call", law: str | None = None) -> Failure:
    return Failure(test, when, f"AssertionError: not {test[-1]}", law)


def red(*failures: Failure, unplayed: int = 0) -> Run:
    return Run(1, Played(failures=failures, passed=3, unplayed=unplayed))


def test_a_run_without_failures_is_green_and_nothing_is_repeated() -> None:
    assert to_repeat(GREEN) == ()
    found = verdict(GREEN, {})
    assert (found.red, found.flaked) == ("", ())


def test_each_failure_is_repeated_once() -> None:
    assert to_repeat(red(failure(A), failure(B, "setup"))) == (A, B)


def test_three_failures_are_not_repeated_though_all_tests_ran() -> None:
    run = red(failure(A), failure(B), failure(C), failure(A, "teardown"))
    assert to_repeat(run) == ()
    assert verdict(run, {}).red == f"{A} failed: AssertionError: not a"


def test_a_test_that_failed_in_its_teardown_too_counts_once() -> None:
    assert to_repeat(red(failure(A), failure(A, "teardown"), failure(B))) == (A, B)


def test_the_seed_is_shown() -> None:
    assert verdict(Run(1, Played(failures=(failure(),), seed=7)), {}).seed == 7


def test_a_failed_test_that_passes_alone_has_flaked_and_the_run_is_green() -> None:
    found = verdict(red(failure(A), failure(B)), {A: PASSED, B: PASSED})
    assert found.red == ""
    assert [flaked.test for flaked in found.flaked] == [A, B]


def test_a_test_that_fails_twice_is_red_with_its_first_reason() -> None:
    found = verdict(red(failure(A), failure(B)), {A: PASSED, B: Run(1, Played(failures=(failure(B),)))})
    assert found.red == f"{B} failed twice: AssertionError: not b"
    assert found.first == failure(B)
    assert found.flaked == ()


@pytest.mark.parametrize(
    "again", [Run(None, None), Run(5, Played()), Run(0, Played(skipped=1)), Run(3, None)], ids=repr
)
def test_a_repetition_without_a_result_leaves_the_run_red(again: Run) -> None:
    assert verdict(red(failure(A)), {A: again}).red.startswith(f"{A} failed twice")


@pytest.mark.parametrize("when", ["setup", "call", "teardown", AFTERWARDS])
def test_a_broken_law_is_red_and_nothing_is_repeated(when: str) -> None:
    run = red(failure(B), failure(A, when, "L1"), unplayed=2)
    assert to_repeat(run) == ()
    found = verdict(run, {})
    assert found.red == f"law L1 broken in {A}"
    assert found.first == failure(A, when, "L1")


def test_a_law_broken_in_a_repetition_is_red() -> None:
    again = {A: PASSED, B: Run(1, Played(failures=(failure(B, law="L4"),)))}
    assert verdict(red(failure(A), failure(B)), again).red == f"law L4 broken in {B}"


@pytest.mark.parametrize("when", [COLLECTION, AFTERWARDS])
def test_a_failure_outside_a_test_cannot_be_repeated_and_is_red(when: str) -> None:
    run = red(failure(A, when))
    assert to_repeat(run) == ()
    assert verdict(run, {}).red == f"{A} failed: AssertionError: not a"


def test_a_run_that_did_not_run_all_of_its_tests_is_red() -> None:
    run = red(failure(A), failure(B), unplayed=2)
    assert to_repeat(run) == ()
    assert verdict(run, {}).red == f"{A} failed: AssertionError: not a; not played any more: 2"


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (Run(None, None), "not at its end in time"),
        (
            Run(None, Played(failures=(failure(A),))),
            f"not at its end in time; {A} failed: AssertionError: not a",
        ),
        (Run(-9, None), "pytest ended with exit status -9 and has written nothing down"),
        (Run(2, Played(passed=3)), "exit status 2, 3 passed"),
        (Run(0, Played()), "exit status 0, 0 passed"),
        (Run(5, Played()), "exit status 5, 0 passed"),
    ],
)
def test_a_run_that_was_interrupted_or_ran_no_tests_is_red(run: Run, expected: str) -> None:
    assert to_repeat(run) == ()
    assert verdict(run, {}).red == expected
