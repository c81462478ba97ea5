"""Which limits hold: defaults < pool < group < user < dated exemption, the narrowest wins. Pure.

A group and a user may say something about one model, which is narrower than what they say about all.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from booking.policy.limits import Limits
from booking.policy.values import Values

_MANUAL: Final = Limits()


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What a group or a user has differently."""

    values: Values = {}
    pools: Mapping[str, Values] = {}
    """Model in label form -> what differs for it alone."""

    def layers(self, model: str) -> list[Values]:
        """The values that hold for a model, wide to narrow: those of the scope, then those of the pool."""
        return [self.values, self.pools.get(model, {})]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """People with limits of their own."""

    name: str
    """Users who sign in as members of a group of this name are members here, too."""
    members: frozenset[str] = frozenset()
    """User ids of members, besides those who sign in as members."""
    scope: Scope = Scope()


def of_groups(groups: Sequence[Group], *, user: str, names: frozenset[str], model: str) -> list[Values]:
    """What a user's groups say, wide to narrow: the group that is written first has the last word."""
    mine = [group for group in groups if group.name in names or user in group.members]
    # What any of them says about the model is narrower than what any says about all models.
    of_all, of_model = zip(*(group.scope.layers(model) for group in mine), strict=True) if mine else ((), ())
    return [*reversed(of_all), *reversed(of_model)]


def resolved(layers: Iterable[Values], *, zone: str = "UTC") -> Limits:
    """The limits that layers give, wide to narrow, over the manual's.

    Two scopes that know nothing of each other may leave a shortest booking over the longest: the narrower of
    the two is right, and the other follows it.
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
def _made(knobs: frozenset[tuple[str, Any]]) -> Limits:
    """Limits of these knobs: every request asks, and those of most people are the same."""
    return Limits(**dict(knobs))
