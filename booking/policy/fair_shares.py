"""How GPUs without a booking are divided: the policy's part ``fair_shares``. Pure."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final, Literal

import msgspec

from booking.durations import Duration, iso

Mode = Literal["off", "order", "reclaim"]
"""Waiting pods are served by age (off) or by fair shares (order); or who holds too much also gives back
(reclaim)."""
DEFAULT_MODE: Final[Mode] = "order"
ANY_MODEL: Final = "*"
"""In a quota or limit: every model that is not named."""

Amounts = Mapping[str, int]
"""Model in label form, or ``ANY_MODEL`` -> GPUs."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What is set for one user or one group."""

    weight: Fraction = Fraction(1)
    """Above 0: who weighs twice as much deserves twice as much."""
    quota: Amounts = {}
    """GPUs that are deserved before the rest is divided by weight."""
    limit: Amounts = {}
    """GPUs without a booking that are had at most, even if others are free."""


class ShareGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Users who share one part. Who is in several groups is in the first of them."""

    name: str
    standing: Standing = Standing()
    members: frozenset[str] = frozenset()
    """User ids."""
    kubernetes_groups: frozenset[str] = frozenset()
    """Groups as the API server names them, of whoever creates the pod."""
    namespaces: frozenset[str] = frozenset()
    """Everybody's pods there."""


class FairShares(msgspec.Struct, frozen=True, kw_only=True):
    """The settings. Without any everybody weighs the same."""

    mode: Mode | None = None
    """None: the default of the installation (``effective``)."""
    reclaim_after: Duration = Duration(seconds=60)
    """How long somebody has less than deserved before others give back."""
    min_runtime: Duration = Duration(seconds=600)
    """How long a pod runs before it is taken for shares; doubled with each time, up to eight hours."""
    turn: Duration | None = Duration(seconds=4 * 3600)
    """How long a pod keeps GPUs above its owner's share once it has waited for them; none: no such turns."""
    evictions_per_day: int = 3
    """How often pods of one owner object are taken for shares within 24 hours, at most."""
    worth: Fraction = Fraction(1)
    """What must have been withheld for each GPU-second that giving back destroys; 0: nothing."""
    turn_loss: Fraction | None = Fraction(1, 2)
    """What a turn may destroy of what it gives; none: no limit."""
    groups: tuple[ShareGroup, ...] = ()
    users: Mapping[str, Standing] = {}
    values: Mapping[str, int] = {}
    """Model in label form -> what a GPU of it counts in past usage, where others count 1."""

    @property
    def kubernetes_groups(self) -> frozenset[str]:
        """Those that any group names."""
        return frozenset[str]().union(*(group.kubernetes_groups for group in self.groups))

    def effective(self, *, maia: bool) -> Mode:
        """The mode in force; MAIA promises its users that only booked pods take their GPUs."""
        return self.mode or ("off" if maia else DEFAULT_MODE)


def written_fair_shares(shares: FairShares) -> dict[str, Any]:
    """The settings for programs; amounts that are no whole number are text."""
    return {
        "mode": shares.mode,
        "reclaim_after": iso(shares.reclaim_after),
        "min_runtime": iso(shares.min_runtime),
        "turn": iso(shares.turn) if shares.turn else None,
        "evictions_per_day": shares.evictions_per_day,
        "worth": str(shares.worth),
        "turn_loss": None if shares.turn_loss is None else str(shares.turn_loss),
        "groups": [
            {
                "name": group.name,
                "members": sorted(group.members),
                "kubernetes_groups": sorted(group.kubernetes_groups),
                "namespaces": sorted(group.namespaces),
                **_of(group.standing),
            }
            for group in shares.groups
        ],
        "users": {user: _of(standing) for user, standing in shares.users.items()},
        "values": dict(shares.values),
    }


def _of(standing: Standing) -> dict[str, Any]:
    return {
        "weight": str(standing.weight),
        "quota": dict(standing.quota),
        "limit": dict(standing.limit),
    }
