"""Which scope wins: defaults, pool, groups, user; then exemptions."""

from collections.abc import Mapping
from itertools import combinations, permutations
from typing import Any

import pytest

from booking.durations import Duration
from booking.policy.policy import Policy
from booking.policy.resolution import Group, Scope, of_groups, resolved
from booking.policy.values import Values
from tests.booking.policy.exempting import an_exemption
from tests.fakes.objects import A100, A6000
from tests.fakes.records import day


def a_group(name: str, *members: str, pools: Mapping[str, Values] | None = None, **values: Any) -> Group:
    return Group(name=name, members=frozenset(members), scope=Scope(values=values, pools=pools or {}))


def layers_of(
    *groups: Group, user: str = "alice", names: tuple[str, ...] = (), model: str = A100
) -> list[Any]:
    """The limits of the user's groups, without the empty ones."""
    found = of_groups(groups, user=user, names=frozenset(names), model=model)
    return [layer for layer in found if layer]


# --- every pair of scopes --------------------------------------------------------------------------------
WIDE_TO_NARROW = ("defaults", "pool", "group", "group's pool", "user", "user's pool", "exemption", "of model")
"""Scopes by how narrow they are; each gives the buffer of its position."""


def buffer_of(*scopes: str) -> int:
    """Alice's buffer on an A100 when these scopes set one."""
    layers = {
        name: {"buffer": number} for number, name in enumerate(WIDE_TO_NARROW, start=1) if name in scopes
    }
    policy = Policy(
        defaults=layers.get("defaults", {}),
        pools={A100: layers.get("pool", {})},
        groups=(
            Group(
                name="lab",
                members=frozenset({"alice"}),
                scope=Scope(values=layers.get("group", {}), pools={A100: layers.get("group's pool", {})}),
            ),
        ),
        users={"alice": Scope(values=layers.get("user", {}), pools={A100: layers.get("user's pool", {})})},
    )
    exemptions = [an_exemption(layers[name], model=model) for name, model in EXEMPTIONS if name in layers]
    return policy.limits_for(user="alice", model=A100, now=day(0), exemptions=exemptions).buffer


EXEMPTIONS = (("of model", A100), ("exemption", None))


@pytest.mark.parametrize(("wide", "narrow"), [*combinations(WIDE_TO_NARROW, 2)])
def test_the_narrower_of_any_two_scopes_wins(wide: str, narrow: str) -> None:
    assert buffer_of(wide, narrow) == buffer_of(narrow) == 1 + WIDE_TO_NARROW.index(narrow)


# --- groups ----------------------------------------------------------------------------------------------


def test_a_group_does_not_apply_to_users_who_are_not_members() -> None:
    assert layers_of(a_group("lab", "bob", buffer=3)) == []


@pytest.mark.parametrize(
    ("members", "signed_in_as"),
    [(("alice",), ()), ((), ("lab",)), (("alice",), ("lab",)), (("bob", "alice"), ("other",))],
    ids=["listed", "signed in", "both", "listed, and signed in to another"],
)
def test_a_group_counts_once_however_the_user_became_a_member(
    members: tuple[str, ...], signed_in_as: tuple[str, ...]
) -> None:
    assert layers_of(a_group("lab", *members, buffer=3), names=signed_in_as) == [{"buffer": 3}]


def test_the_id_of_a_user_and_the_name_of_a_group_are_not_confused() -> None:
    assert layers_of(a_group("alice", "bob", buffer=3)) == []
    assert layers_of(a_group("lab", "staff", buffer=3), names=("staff",)) == []


@pytest.mark.parametrize("order", [*permutations((1, 2, 3))])
def test_each_limit_comes_from_the_first_group_that_sets_it(order: tuple[int, ...]) -> None:
    groups = [a_group(f"g{number}", "alice", buffer=number) for number in order]
    assert layers_of(*groups)[-1] == {"buffer": order[0]}


def test_contradicting_groups_are_combined_limit_by_limit() -> None:
    strict = a_group("strict", "alice", cooldown=Duration(30), max_active=1)
    generous = a_group("generous", "alice", cooldown=Duration(), buffer=2, max_active=5)
    for groups, expected in (
        ((strict, generous), (Duration(30), 2, 1)),
        ((generous, strict), (Duration(), 2, 5)),
    ):
        found = resolved(layers_of(*groups))
        assert (found.cooldown, found.buffer, found.max_active) == expected


def test_a_group_with_several_pools_has_its_own_limits_for_each_model() -> None:
    lab = a_group("lab", "alice", buffer=1, pools={A100: {"buffer": 2}, A6000: {"buffer": 3}})
    assert [resolved(layers_of(lab, model=model)).buffer for model in (A100, A6000, "L40")] == [2, 3, 1]


def test_the_last_groups_limit_for_the_model_beats_the_first_groups_for_all_models() -> None:
    first = a_group("first", "alice", buffer=1, pools={A6000: {"buffer": 9}})
    last = a_group("last", "alice", buffer=2, pools={A100: {"buffer": 3}})
    assert layers_of(first, last) == [{"buffer": 2}, {"buffer": 1}, {"buffer": 3}]


def test_the_first_of_two_groups_that_name_the_model_wins() -> None:
    first = a_group("first", "alice", pools={A100: {"buffer": 1}})
    second = a_group("second", "alice", pools={A100: {"buffer": 2, "max_active": 4}})
    found = resolved(layers_of(first, second))
    assert (found.buffer, found.max_active) == (1, 4)


def test_a_user_without_their_own_scope_has_that_of_the_group() -> None:
    policy = Policy(groups=(a_group("lab", "alice", buffer=3),), users={"bob": Scope(values={"buffer": 9})})
    assert policy.limits_for(user="alice", model=A100, now=day(0)).buffer == 3
    assert policy.limits_for(user="bob", model=A100, now=day(0)).buffer == 9


# --- the shortest and the longest booking ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("layers", "shortest", "longest"),
    [
        ([], 1, 14),
        ([{"shortest": Duration(20)}], 20, 20),
        ([{"longest": Duration(0, 3600)}], Duration(0, 3600), Duration(0, 3600)),
        ([{"shortest": Duration(20)}, {"longest": Duration(5)}], 5, 5),
        ([{"longest": Duration(5)}, {"shortest": Duration(20)}], 20, 20),
        ([{"shortest": Duration(20)}, {"longest": Duration(30)}], 20, 30),
        ([{"shortest": Duration(14)}], 14, 14),
        ([{"shortest": Duration(20)}, {"shortest": Duration(1)}], 1, 20),
        ([{"longest": Duration(2)}, {"shortest": Duration(3)}, {"longest": Duration(1)}], 1, 1),
    ],
)
def test_the_narrower_of_two_scopes_that_leave_no_possible_length_wins(
    layers: list[Values], shortest: Any, longest: Any
) -> None:
    found = resolved(layers)
    assert (found.shortest, found.longest) == (_days(shortest), _days(longest))


def _days(length: int | Duration) -> Duration:
    return Duration(length) if isinstance(length, int) else length


def test_lengths_in_days_and_in_hours_are_compared_by_their_duration() -> None:
    found = resolved([{"shortest": Duration(0, 48 * 3600)}, {"longest": Duration(1)}])
    assert (found.shortest, found.longest) == (Duration(1), Duration(1))
    equal = resolved([{"shortest": Duration(0, 24 * 3600)}, {"longest": Duration(1)}])
    assert (equal.shortest, equal.longest) == (Duration(0, 24 * 3600), Duration(1)), (
        "neither is over the other"
    )


# --- the result ------------------------------------------------------------------------------------------


def test_equal_limits_are_one_object_and_different_limits_are_not() -> None:
    assert resolved([{"buffer": 1}]) is resolved([{"buffer": 2}, {"buffer": 1}])
    assert resolved([{"buffer": 1}]) != resolved([{"buffer": 1}], zone="Europe/Stockholm")
