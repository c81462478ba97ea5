"""Who shares the GPUs of a model: root > group > tenant, each with a weight, a quota and a limit."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Final, NamedTuple

from cluster.decide.fairshare.settings import Amount


class Tenant(NamedTuple):
    """A user in a group; with an empty user the group itself, as a node of the tree."""

    user: str
    """A user's id, or ``namespace/<name>`` for pods of nobody."""
    group: str = ""
    """Empty for a tenant directly at the root."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What is configured for a group or user, for one model."""

    weight: Fraction = Fraction(1)
    """Above 0."""
    quota: Amount = 0
    """GPUs that it gets before anything is divided by weight."""
    limit: Amount | None = None
    """GPUs without a booking that it has at most, even if others are free."""


_PLAIN: Final = Standing()


@dataclass(frozen=True)
class Tree:
    """The tree of one model. A tenant that is not configured has weight 1, no quota and no limit."""

    groups: Mapping[str, Standing] = field(default_factory=dict)
    users: Mapping[str, Standing] = field(default_factory=dict)

    def standing(self, node: Tenant) -> Standing:
        """What is configured for a tenant or group."""
        return self.users.get(node.user, _PLAIN) if node.user else self.groups.get(node.group, _PLAIN)

    def path(self, tenant: Tenant) -> tuple[Tenant, ...]:
        """The nodes from below the root down to the tenant."""
        return (Tenant("", tenant.group), tenant) if tenant.group else (tenant,)

    def sums(self, amounts: Mapping[Tenant, Amount]) -> dict[Tenant, Amount]:
        """Amounts of tenants, with those of their groups."""
        found: dict[Tenant, Amount] = dict(amounts)
        for tenant, amount in amounts.items():
            if tenant.group:
                group = Tenant("", tenant.group)
                found[group] = found.get(group, 0) + amount
        return found

    def whole_weight(self, node: Tenant) -> int:
        """The weight as a whole number, in the same scale for all nodes."""
        weight = self.standing(node).weight
        return weight.numerator * (self._denominator // weight.denominator)

    def factor(self, node: Tenant) -> int:
        """A whole number in inverse proportion to the weight: amount * factor compares as amount / weight."""
        weight = self.standing(node).weight
        return weight.denominator * (self._numerator // weight.numerator)

    @cached_property
    def _denominator(self) -> int:
        return lcm(*(one.weight.denominator for one in self._standings()))

    @cached_property
    def _numerator(self) -> int:
        return lcm(*(one.weight.numerator for one in self._standings()))

    def _standings(self) -> Iterable[Standing]:
        return (*self.groups.values(), *self.users.values())


EQUAL: Final = Tree()
"""Everybody weighs the same."""
