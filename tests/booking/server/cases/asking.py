"""Cases for tests: ``broken(count=2)`` are the rules that refuse alice two days of the only model."""

from typing import Any

from booking.policy.policy import Policy
from booking.server.cases.file import Amount, Booked, CaseFile, CaseRequest, Maintained, OneCase
from booking.server.cases.replay import Outcome, replay
from tests.fakes.records import day

ONE_MODEL: dict[str, dict[str, Amount]] = {"A100": {"n0": 2, "n1": 2}}
MANUAL = Policy()
OF_CASE = ("name", "now", "user", "groups", "exemptions", "change", "expect", "earliest_start")
"""What is a case's; all else is the request's."""


def booked(user: str, start: float, end: float, **more: Any) -> Booked:
    """A booking; start and end in days from the clock's start."""
    return Booked(user=user, start=day(start), end=day(end), **more)


def outcome(
    policy: Policy = MANUAL,
    *,
    capacity: dict[str, dict[str, Amount]] | None = None,
    history: tuple[Booked, ...] = (),
    maintenance: tuple[Maintained, ...] = (),
    offered: dict[str, int] | None = None,
    **more: Any,
) -> Outcome:
    """The outcome of one case: alice requests two days from now on, unless given otherwise."""
    of_case = {key: more.pop(key) for key in OF_CASE if key in more}
    is_timed = {"duration", "end"} & more.keys() or "change" in of_case
    request = CaseRequest(**more) if is_timed else CaseRequest(duration="2d", **more)
    case = OneCase(**{"name": "one", "now": day(0), "user": "alice", "request": request, **of_case})
    file = CaseFile(
        capacity=capacity or ONE_MODEL,
        memory=offered or {},
        history=history,
        maintenance=maintenance,
        cases=(case,),
    )
    (found,) = replay(file, policy)
    return found


def broken(policy: Policy = MANUAL, **more: Any) -> set[str]:
    """The rules that the case breaks; none: it is accepted."""
    return set(outcome(policy, **more).broken)
