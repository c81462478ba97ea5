"""Whose names a user may see."""

from typing import get_args

import pytest

from booking.policy.visibility import Visibility, may_see_user
from tests.fakes.principals import an_administrator, somebody


@pytest.mark.parametrize(
    ("visibility", "user", "expected"),
    [
        ("load", "alice", True),
        ("load", "bob", False),
        ("load", "Alice", False),
        ("load", None, False),
        ("names", "alice", True),
        ("names", "bob", True),
        ("names", None, True),
    ],
)
def test_people_see_their_own_name_and_others_where_the_policy_allows_it(
    visibility: Visibility, user: str | None, *, expected: bool
) -> None:
    assert may_see_user(somebody("alice"), user, visibility) == expected


@pytest.mark.parametrize("visibility", get_args(Visibility))
@pytest.mark.parametrize("user", ["alice", "root", None])
def test_an_administrator_sees_everybody_under_every_policy(visibility: Visibility, user: str | None) -> None:
    assert may_see_user(an_administrator("root"), user, visibility)


def test_a_group_with_the_name_of_a_user_shows_nobody_to_its_members() -> None:
    assert not may_see_user(somebody("alice", "bob", "administrators"), "bob", "load")
