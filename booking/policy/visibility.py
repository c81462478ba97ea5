"""Whose names a user may see, on every page and in every response alike. Pure."""

from typing import Literal

from booking.principals import Principal

Visibility = Literal["load", "names"]
"""What people see of others: how many GPUs are booked and used, or by whom, too."""


def may_see_user(who: Principal, user: str | None, visibility: Visibility) -> bool:
    """Whether the viewer learns that GPUs are a user's: their own always, an administrator all."""
    return who.is_administrator or visibility == "names" or user == who.user
