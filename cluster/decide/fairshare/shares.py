"""Who holds, wants and deserves how many GPUs of a model at one instant."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from cluster.decide.fairshare.settings import Amount
from cluster.decide.fairshare.tenants import Tenant, Tree
from cluster.decide.fairshare.water import divide


@dataclass(frozen=True)
class Shares:
    """All amounts are GPUs, of tenants and of groups. Nodes that are not named have 0."""

    tree: Tree
    capacity: Amount
    held: Mapping[Tenant, Amount]
    wanted: Mapping[Tenant, Amount]
    """Those of feasible units that wait."""
    deserved: Mapping[Tenant, Amount]

    def lacks(self, node: Tenant) -> Amount:
        """How much a tenant or group is below its share: at least 0."""
        return max(0, self.deserved.get(node, 0) - self.held.get(node, 0))

    def over(self, node: Tenant) -> Amount:
        """How much a tenant or group is above its share: at least 0."""
        return max(0, self.held.get(node, 0) - self.deserved.get(node, 0))

    def is_starved(self, node: Tenant) -> bool:
        """Whether it is below its share while a unit of it waits that some nodes could hold."""
        return bool(self.wanted.get(node)) and self.held.get(node, 0) < self.deserved.get(node, 0)

    @property
    def is_contended(self) -> bool:
        """Whether more is wanted than there is."""
        return sum(self._demand.values()) > self.capacity

    @property
    def deficit(self) -> Amount:
        """What tenants lack together: a reclaim within shares lowers it by exactly what it gives (L10)."""
        return sum(self.lacks(tenant) for tenant in self.deserved if tenant.user)

    @cached_property
    def _demand(self) -> Mapping[Tenant, Amount]:
        of_all = {*self.held, *self.wanted}
        return {one: self.held.get(one, 0) + self.wanted.get(one, 0) for one in of_all if one.user}

    @cached_property
    def starvation(self) -> Amount:
        """What starved tenants lack together."""
        return sum(self.lacks(one) for one in self.wanted if one.user and self.is_starved(one))

    def after(self, changes: Mapping[Tenant, Amount]) -> "Shares":
        """The same after units have started (positive) or gone back to wait (negative): no share moves."""
        held, wanted = dict(self.held), dict(self.wanted)
        for node, change in self.tree.sums(changes).items():
            held[node] = held.get(node, 0) + change
            wanted[node] = wanted.get(node, 0) - change
        return replace(self, held=held, wanted=wanted)


def deserve(
    tree: Tree, capacity: Amount, held: Mapping[Tenant, Amount], wanted: Mapping[Tenant, Amount]
) -> Shares:
    """The shares that tenants deserve: top down, at each level quotas first and the rest by weight.

    Args:
        tree: weights, quotas and limits for this model.
        capacity: healthy devices of serving nodes, without those of booked pods, of holds for them, and of
            pods that are never evicted.
        held: what evictable units without a booking hold, of tenants: bound ones and those with a hold.
        wanted: what feasible waiting units want, of tenants; units with a hold count as held.
    """
    tenants = [one for one in {**held, **wanted} if held.get(one) or wanted.get(one)]
    demand = {one: _limited(tree, one, held.get(one, 0) + wanted.get(one, 0)) for one in tenants}
    children: dict[str, dict[Tenant, Amount]] = {}
    for tenant, amount in demand.items():
        children.setdefault(tenant.group, {})[tenant] = amount
    top = children.pop("", {})
    for group, members in children.items():
        node = Tenant("", group)
        top[node] = _limited(tree, node, sum(members.values()))
    deserved = _divide(tree, max(0, capacity), top)
    for group, members in children.items():
        deserved |= _divide(tree, deserved[Tenant("", group)], members)
    return Shares(
        tree=tree, capacity=capacity, held=tree.sums(held), wanted=tree.sums(wanted), deserved=deserved
    )


def _limited(tree: Tree, node: Tenant, amount: Amount) -> Amount:
    limit = tree.standing(node).limit
    return amount if limit is None else min(limit, amount)


def _divide(tree: Tree, total: Amount, demand: Mapping[Tenant, Amount]) -> dict[Tenant, Amount]:
    if sum(demand.values()) <= total:
        return dict(demand)
    weight = {node: tree.whole_weight(node) for node in demand}
    quota = {node: tree.standing(node).quota for node in demand}
    return divide(total, demand, weight, quota)
