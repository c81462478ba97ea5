"""Instants in whole seconds, names that cannot be guessed, and the policy that holds now."""

from datetime import datetime, timedelta

import pytest

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.policy.policy import Policy
from booking.server.service.context import random_id, rounded_up, whole
from booking.server.service.current_policy import CurrentPolicy
from cluster.fake.clock import START

MOMENT = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("moment", "second", "up"),
    [
        (START, START, START),
        (START + MOMENT, START, START + SECOND),
        (START + SECOND - MOMENT, START, START + SECOND),
        (START + SECOND, START + SECOND, START + SECOND),
    ],
)
def test_an_instant_is_rounded_down_to_its_second_or_up_to_the_next_whole_one(
    moment: datetime, second: datetime, up: datetime
) -> None:
    assert (whole(moment), rounded_up(moment)) == (second, up)


def test_ids_are_random_letters_and_digits_that_spell_no_words() -> None:
    names = {random_id() for _ in range(200)}
    assert len(names) == 200
    letters = {letter for name in names for letter in name.removeprefix("b-")}
    assert letters == set("bcdfghjkmnpqrstvwxz23456789")
    assert {len(name) for name in names} == {12}


def test_fixed_limits_are_a_policy_of_the_differences_from_the_manual() -> None:
    fixed = CurrentPolicy(Limits(longest=Duration(days=3), zone="Europe/Berlin"))
    policy = fixed.policy()
    assert dict(policy.defaults) == {"longest": Duration(days=3)}
    assert policy.zone == "Europe/Berlin"
    assert CurrentPolicy(Limits()).policy().defaults == {}


def test_a_replaced_policy_holds_at_once_with_its_own_version() -> None:
    old, new = Policy(), Policy(defaults={"longest": Duration(days=3)})
    there = [old]
    current = CurrentPolicy(lambda: there[0])
    assert current.version(current.policy()) == old.version
    there[0] = new
    assert current.version(current.policy()) == new.version != old.version
    assert current.version(old) == old.version
