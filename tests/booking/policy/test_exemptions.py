"""Exemptions: when and for what they hold, and which can be granted."""

from datetime import timedelta
from typing import Any

import pytest

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.policy.policy import Policy, read_exemption
from booking.policy.resolution import Group, Scope
from booking.policy.values import LIMIT_NAMES, ValueMistakeError
from booking.server.store_records import Exemption
from tests.booking.policy.exempting import an_exemption
from tests.fakes.objects import A100, A6000
from tests.fakes.records import day

INSTANT = timedelta(microseconds=1)
STRICT = Policy(
    defaults={"buffer": 9, "max_active": 1},
    groups=(Group(name="lab", members=frozenset({"alice"}), scope=Scope(values={"max_active": 2})),),
    users={"alice": Scope(values={"buffer": 8}, pools={A100: {"buffer": 7}})},
)


def exempted(
    *exemptions: Exemption, policy: Policy = STRICT, model: str = A100, later: timedelta = timedelta()
) -> Limits:
    """What alice has, some time after the clock's start."""
    return policy.limits_for(user="alice", model=model, now=day(0) + later, exemptions=exemptions)


# --- when an exemption holds -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "end", "later", "expected"),
    [
        (0, 1, -INSTANT, 7),
        (0, 1, timedelta(), 3),
        (0, 1, timedelta(days=1) - INSTANT, 3),
        (0, 1, timedelta(days=1), 7),
        (-1, 0, timedelta(), 7),
        (-1, 0, -INSTANT, 3),
    ],
    ids=["before", "at its start", "just before its end", "at its end", "has just ended", "is about to end"],
)
def test_an_exemption_holds_from_its_first_instant_up_to_but_not_at_its_end(
    start: float, end: float, later: timedelta, expected: int
) -> None:
    assert exempted(an_exemption({"buffer": 3}, start, end), later=later).buffer == expected


# --- what it says ----------------------------------------------------------------------------------------


def test_an_exemption_changes_only_the_limits_that_it_names() -> None:
    found = exempted(an_exemption({"cooldown": "P0D"}))
    assert (found.cooldown, found.buffer, found.max_active) == (Duration(), 7, 2)


def test_an_exemption_for_all_models_beats_the_users_scope_for_one_model() -> None:
    assert [exempted(an_exemption({"buffer": 3}), model=model).buffer for model in (A100, A6000)] == [3, 3]


def test_an_exemption_for_one_model_does_not_affect_another() -> None:
    assert [exempted(an_exemption({"buffer": 3}, model=A100), model=m).buffer for m in (A100, A6000)] == [
        3,
        8,
    ]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("exemptions", "expected"),
    [
        ((an_exemption({"buffer": 1}, -2), an_exemption({"buffer": 2}, -1)), 2),
        ((an_exemption({"buffer": 1}, -2, 5), an_exemption({"buffer": 2}, -1, 4)), 2),
        ((an_exemption({"buffer": 1}, -2, model=A100), an_exemption({"buffer": 2}, -1)), 1),
        ((an_exemption({"buffer": 1}, -2, model=A100), an_exemption({"buffer": 2}, -1, model=A100)), 2),
        ((an_exemption({"buffer": 1}, -2), an_exemption({"buffer": 2}, -1, model=A6000)), 1),
    ],
    ids=[
        "newer",
        "newer, not the one that ends later",
        "for the model",
        "newer of two for it",
        "for another",
    ],
)
def test_the_narrower_and_then_the_newer_of_two_contradicting_exemptions_wins(
    exemptions: tuple[Exemption, Exemption], expected: int, order: int
) -> None:
    assert exempted(*exemptions[::order]).buffer == expected


def test_an_exemption_that_sets_the_longest_below_the_policys_shortest_moves_it() -> None:
    policy = Policy(
        defaults={"shortest": Duration(2)}, users={"alice": Scope(values={"longest": Duration(9)})}
    )
    found = exempted(an_exemption({"longest": "PT6H"}), policy=policy)
    assert (found.shortest, found.longest) == (Duration(0, 21600), Duration(0, 21600))


# --- one that another version of ours has accepted -------------------------------------------------------


@pytest.mark.parametrize(
    "beyond",
    [
        {"teleport": True},
        {"cooldown": 9},
        {"max_active": 0},
        {"max_planned": -1},
        {"max_concurrent_gpus": 10**9},
        {"granularity": "P2D"},
        {"granularity": "7000s"},
        {"shortest": "PT0S"},
    ],
    ids=str,
)
def test_limits_of_an_exemption_that_are_unknown_or_impossible_are_left_out(beyond: dict[str, Any]) -> None:
    found = exempted(an_exemption({**beyond, "buffer": 3}))
    assert found == exempted(an_exemption({"buffer": 3}))
    assert found.buffer == 3


# --- which can be granted --------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", LIMIT_NAMES)
def test_every_limit_of_the_policy_can_be_exempted_from(limit: str) -> None:
    manual = getattr(Limits(), limit)
    assert read_exemption({limit: str(manual) if isinstance(manual, Duration) else manual}) == {limit: manual}


@pytest.mark.parametrize("key", ["pools", "members", "zone", "visibility"])
def test_an_exemption_sets_limits_and_nothing_else_of_a_policy(key: str) -> None:
    with pytest.raises(ValueMistakeError, match=f"There is no limit '{key}'"):
        read_exemption({key: "x"})
