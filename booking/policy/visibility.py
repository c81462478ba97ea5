"""Whose names a user may see, equally on every page and in every response. Pure."""

from typing import Literal

from booking.principals import Principal

Visibility = Literal["load", "names"]
"""What users see of others: only how many GPUs are booked and used, or also by whom."""


def may_see_user(who: Principal, user: str | None, visibility: Visibility) -> bool:
    """Whether the viewer learns that GPUs are a user's: their own always, an administrator all."""
    return who.is_administrator or visibility == "names" or user == who.user
