"""Cases in which a booking is changed: whatever the case does not name stays as it is."""

from typing import Any

import pytest

from booking.policy.policy import Policy
from booking.policy.resolution import Group, Scope
from booking.server.cases.file import Booked
from tests.booking.server.cases.asking import booked, broken, outcome
from tests.fakes.records import day

RUNNING = booked("alice", -2, 3, id="mine")
PLANNED = booked("alice", 2, 5, id="mine")
ONE_GPU = {"A100": {"n0": 1}}
NO_EXTENSION = Policy(
    defaults={"may_extend": False},
    groups=(Group(name="staff", scope=Scope(values={"may_extend": True})),),
)


def changed(had: Booked, *others: Booked, policy: Policy | None = None, **changes: Any) -> set[str]:
    """The rules that a change of alice's booking breaks."""
    return broken(policy or Policy(), history=(had, *others), change="mine", **changes)


@pytest.mark.parametrize(
    ("had", "changes", "rules"),
    [
        (RUNNING, {}, set()),
        (RUNNING, {"end": day(4)}, set()),
        (RUNNING, {"duration": "14d"}, set()),
        (RUNNING, {"duration": "15d"}, {"longest"}),
        (RUNNING, {"end": day(13)}, {"longest"}),
        (RUNNING, {"end": day(1)}, set()),
        (RUNNING, {"start": day(1)}, {"has-begun"}),
        (RUNNING, {"count": 2}, set()),
        (PLANNED, {"start": day(1)}, set()),
        (PLANNED, {"start": day(4.5)}, {"shortest"}),
        (PLANNED, {"start": day(1), "end": day(16)}, {"longest"}),
        (PLANNED, {"count": 5, "topology": "any"}, {"more-than-exist"}),
    ],
)
def test_a_change_is_held_to_the_rules_about_what_it_changes(
    had: Booked, changes: dict[str, Any], rules: set[str]
) -> None:
    assert changed(had, **changes) == rules


def test_the_gpus_of_a_booking_are_free_only_for_its_own_change() -> None:
    assert changed(RUNNING, capacity=ONE_GPU, end=day(4)) == set()
    assert changed(RUNNING, booked("bob", 4, 6), capacity=ONE_GPU, end=day(4)) == set()
    assert changed(RUNNING, booked("bob", 4, 6), capacity=ONE_GPU, end=day(5)) == {"capacity"}
    assert broken(user="bob", history=(RUNNING,), capacity=ONE_GPU) == {"capacity"}


def test_the_number_of_gpus_stays_when_it_is_not_given() -> None:
    two = booked("alice", -2, 3, id="mine", count=2)
    assert changed(two, booked("bob", 3, 6, count=2), booked("carol", 3, 6), end=day(4)) == {"capacity"}
    assert changed(two, booked("bob", 3, 6, count=2), booked("carol", 3, 6), end=day(4), count=1) == set()


def test_the_topology_stays_when_it_is_not_given() -> None:
    spread = booked("alice", 2, 5, id="mine", count=2, topology="any")
    others = (booked("bob", 2, 6), booked("carol", 2, 6, topology="single-node"))
    full = (*others, booked("dora", 5, 6, count=2))
    assert changed(spread, *others, end=day(6)) == set()
    assert changed(spread, *full, end=day(6)) == {"capacity"}


def test_the_model_of_the_booking_is_used_when_there_are_several_models() -> None:
    two = {"A100": {"n0": 1}, "L40": {"n1": 1}}
    mine = booked("alice", -2, 3, id="mine", model="L40")
    assert changed(mine, capacity=two, end=day(4)) == set()
    assert changed(mine, booked("bob", 3, 9, model="L40"), capacity=two, end=day(4)) == {"capacity"}
    assert changed(mine, booked("bob", 3, 9, model="A100"), capacity=two, end=day(4)) == set()


def test_a_change_does_not_count_as_a_second_booking() -> None:
    assert changed(PLANNED, end=day(6)) == set()
    assert broken(history=(PLANNED,), start=day(30)) == {"one-planned"}


@pytest.mark.parametrize("change", ["mine", "b-2"])
def test_a_booking_is_named_by_its_id_or_its_number(change: str) -> None:
    history = (
        (RUNNING, booked("alice", 20, 22))
        if change == "mine"
        else (booked("bob", -1, 1), booked("alice", -2, 3))
    )
    found = outcome(NO_EXTENSION, history=history, change=change, end=day(4))
    assert found.broken == ("no-extension",)
    assert "until 2026-03-05 09:00 UTC" in found.messages[0]
