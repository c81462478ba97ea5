"""One step after the other, each until nothing is left of it to do."""

from collections.abc import Iterator

import pytest

from booking.controller.uninstall.api import some
from booking.controller.uninstall.steps import Patience, Step, in_order
from cluster.fake import FakeClock
from cluster.kube.errors import ApiError, Forbidden, Request
from cluster.objects.meta import Status


class Steps:
    """Steps with the answers of a test, and the order in which they ran."""

    def __init__(self) -> None:
        self.clock = FakeClock(self_advancing=True)
        self.attempts: list[str] = []
        self.reports: list[str] = []

    def step(self, name: str, *answers: str | ApiError | None) -> Step:
        """A step with these answers, the last of them indefinitely."""
        following: Iterator[str | ApiError | None] = iter(answers)
        last = answers[-1]

        def answer() -> str | None:
            self.attempts.append(name)
            found = next(following, last)
            if isinstance(found, ApiError):
                raise found
            return found

        return answer

    def run(self, *steps: Step, seconds: float = 10.0) -> bool:
        return in_order(steps, Patience(clock=self.clock, seconds=seconds), self.reports.append)


@pytest.fixture
def steps() -> Steps:
    return Steps()


def test_a_step_begins_when_the_previous_one_is_done(steps: Steps) -> None:
    assert steps.run(steps.step("a", "wait", "wait", None), steps.step("b", None))
    assert steps.attempts == ["a", "a", "a", "b"]


def test_the_remaining_work_is_reported_once_until_it_changes(steps: Steps) -> None:
    assert steps.run(steps.step("a", "two", "two", "one", "two", None))
    assert steps.reports == ["two", "one", "two"]


def test_all_steps_share_one_timeout_and_later_ones_are_not_begun_after_it(steps: Steps) -> None:
    assert not steps.run(
        steps.step("a", *["left"] * 6, None), steps.step("b", "stuck"), steps.step("c", None), seconds=10
    )
    assert steps.attempts == ["a"] * 7 + ["b"] * 5
    assert steps.reports[-1].startswith("This takes too long.")
    assert "uninstall again" in steps.reports[-1]


def test_with_a_timeout_of_zero_each_step_is_still_tried_once(steps: Steps) -> None:
    assert steps.run(steps.step("a", None), steps.step("b", None), seconds=0)
    assert not steps.run(steps.step("a", "left"), seconds=0)


def test_a_step_that_the_api_server_refuses_is_retried_and_the_reason_reported(steps: Steps) -> None:
    refusal = Forbidden(
        Request("DELETE", "leases"), Status(code=403, reason="Forbidden", message="not allowed to delete")
    )
    assert steps.run(steps.step("a", refusal, refusal, None), steps.step("b", None))
    assert steps.attempts == ["a", "a", "a", "b"]
    (report,) = steps.reports
    assert "is asked again" in report
    assert "not allowed to delete" in report


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, ""), (1, "p0"), (5, "p0, p1, p2, p3, p4"), (6, "p0, p1, p2, p3, p4, and 1 more")],
)
def test_only_the_first_five_of_many_are_named(number: int, text: str) -> None:
    assert some([f"p{index}" for index in range(number)]) == text
