"""Resolves limits: defaults < pool < group < user < dated exemption, the narrowest wins. Pure.

A group or a user may set limits for one model, which is narrower than their limits for all models.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from booking.policy.limits import Limits
from booking.policy.values import Values

_MANUAL: Final = Limits()


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """The limits that a group or a user sets."""

    values: Values = {}
    pools: Mapping[str, Values] = {}
    """Model in label form -> the limits that it sets for this model only."""

    def layers(self, model: str) -> list[Values]:
        """The values for a model, wide to narrow: those of the scope, then those of the pool."""
        return [self.values, self.pools.get(model, {})]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Users with limits of their own."""

    name: str
    """Users who sign in as members of a group with this name are members here, too."""
    members: frozenset[str] = frozenset()
    """User ids of members, besides those who sign in as members."""
    scope: Scope = Scope()


def of_groups(groups: Sequence[Group], *, user: str, names: frozenset[str], model: str) -> list[Values]:
    """The values of a user's groups, wide to narrow: the group that is written first has the last word."""
    mine = [group for group in groups if group.name in names or user in group.members]
    # Any group's values for the model are narrower than any group's values for all models.
    of_all, of_model = zip(*(group.scope.layers(model) for group in mine), strict=True) if mine else ((), ())
    return [*reversed(of_all), *reversed(of_model)]


def resolved(layers: Iterable[Values], *, zone: str = "UTC") -> Limits:
    """The limits that result from layers, wide to narrow, over the manual's.

    Two independent scopes may set a shortest booking above the longest: the narrower scope wins, and the
    other limit follows it.
    """
    values: dict[str, Any] = {"shortest": _MANUAL.shortest, "longest": _MANUAL.longest, "zone": zone}
    for layer in layers:
        values.update(layer)
        if values["shortest"].nominal > values["longest"].nominal:
            if "shortest" in layer:
                values["longest"] = values["shortest"]
            else:
                values["shortest"] = values["longest"]
    return _made(frozenset(values.items()))


@lru_cache(maxsize=256)
def _made(items: frozenset[tuple[str, Any]]) -> Limits:
    """The limits with these values; cached, since every request needs them and most users have the same."""
    return Limits(**dict(items))
