"""Whose share a pod counts to, and how devices are divided, reckoned a second time for law L10.

Only what the policy says is the product's; who deserves what is found here by filling: everybody gets as much
by weight until some have what they want, these are left out, and the rest is divided again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from booking.policy.fair_shares import ANY_MODEL, Amounts, FairShares, Standing
from booking.policy_source import PERIOD
from cluster import names
from cluster.objects.kept_once import ReadOnce
from cluster.objects.pods import Pod
from tests.laws.groups import user_of

READ_WITHIN: Final = timedelta(seconds=2 * PERIOD)
"""After so long nobody decides by a policy that was replaced."""


class Tenant(NamedTuple):
    """A user, or a namespace with nobody's pods; with an empty user the group as a whole."""

    user: str
    group: str = ""

    @property
    def top(self) -> "Tenant":
        """What it counts to at the first division: its group, or itself."""
        return Tenant("", self.group) if self.group else self

    def __str__(self) -> str:
        return self.user or f"the group {self.group}"


class Standings:
    """What a policy says of users and groups; without anything everybody weighs the same."""

    def __init__(self, shares: FairShares | None = None) -> None:
        self._shares = shares or FairShares()
        self._groups = {group.name: group.standing for group in self._shares.groups}
        self.tenant_of: Final = ReadOnce(self._tenant_of)
        """Pod -> whose share it counts to."""

    def _tenant_of(self, pod: Pod) -> Tenant:
        """In the first group that has its user, namespace or creator."""
        namespace = pod.metadata.namespace
        text = pod.metadata.annotation(names.GROUPS)
        of_creator = set(msgspec.json.decode(text, type=list[str])) if text else set[str]()
        for group in self._shares.groups:
            is_member = user_of(pod) in group.members or namespace in group.namespaces
            if is_member or of_creator & group.kubernetes_groups:
                return Tenant(user_of(pod) or f"namespace/{namespace}", group.name)
        return Tenant(user_of(pod) or f"namespace/{namespace}")

    def weight(self, tenant: Tenant) -> Fraction:
        """Above 0."""
        return self._of(tenant).weight

    def quota(self, tenant: Tenant, model: str) -> int:
        """GPUs that come before everything else."""
        return _of_model(self._of(tenant).quota, model) or 0

    def limit(self, tenant: Tenant, model: str) -> int | None:
        """GPUs at most; None for as many as there are."""
        return _of_model(self._of(tenant).limit, model)

    def _of(self, tenant: Tenant) -> Standing:
        found = self._shares.users.get(tenant.user) if tenant.user else self._groups.get(tenant.group)
        return found or Standing()


def _of_model(amounts: Amounts, model: str) -> int | None:
    return amounts.get(model, amounts.get(ANY_MODEL))


@dataclass
class Pool:
    """Who holds and wants devices of one model without a booking."""

    model: str
    standings: Standings
    capacity: int = 0
    holds: Counter[Tenant] = field(default_factory=Counter)
    wants: Counter[Tenant] = field(default_factory=Counter)
    """What tenants hold; and that with what their waiting pods ask for."""

    def held(self, node: Tenant) -> int:
        """What a tenant or a whole group holds."""
        return sum(amount for tenant, amount in self.holds.items() if node in {tenant, tenant.top})

    def deserved(self) -> Mapping[Tenant, Fraction]:
        """Of tenants and groups: quotas first, then nobody more than is wanted, all others by weight."""
        demand = {tenant: self._limited(tenant, Fraction(self.wants[tenant])) for tenant in self.wants}
        tops: dict[Tenant, Fraction] = {}
        for tenant, amount in demand.items():
            tops[tenant.top] = tops.get(tenant.top, Fraction(0)) + amount
        tops = {node: self._limited(node, amount) for node, amount in tops.items()}
        found = self._divided(Fraction(self.capacity), tops)
        for node in tops:
            if not node.user:
                members = {one: amount for one, amount in demand.items() if one.top == node}
                found |= self._divided(found[node], members)
        return found

    def shortfalls(self, taker: Tenant, given: int, moved: Mapping[Tenant, int]) -> list[Fraction]:
        """By how much the sum of deficits falls, where that is not what is given: none if all is right.

        Judged among the members of the taker's group, and among groups and users without one for what goes
        from one to another.
        """
        due = self.deserved()
        members = {one for one in due if one.user and one.top == taker.top}
        tops = {one for one in due if one == one.top}
        among_tops: Counter[Tenant] = Counter()
        for tenant, amount in moved.items():
            among_tops[tenant.top] += amount
        crossing = given if taker.top == taker else max(0, among_tops[taker.top])
        levels = [(tops, among_tops, crossing)]
        if taker.top != taker:
            levels.append((members, Counter(moved), given))
        falls = []
        for nodes, changes, expected in levels:
            before = sum(max(Fraction(0), due[one] - self.held(one)) for one in nodes)
            after = sum(max(Fraction(0), due[one] - self.held(one) - changes[one]) for one in nodes)
            if before - after != expected:
                falls.append(Fraction(before - after))
        return falls

    def is_before(self, one: Tenant, other: Tenant) -> bool:
        """Whether the next device is one's, where both have a pod that it would do for."""
        if one.top != other.top:
            one, other = one.top, other.top
        return self._place(one) < self._place(other)

    def is_beyond_limit(self, tenant: Tenant, gpus: int) -> bool:
        """Whether it would have more than it may, or its group, with so many more."""
        limits = ((node, self.standings.limit(node, self.model)) for node in {tenant, tenant.top})
        return any(limit is not None and self.held(node) + gpus > limit for node, limit in limits)

    def _place(self, node: Tenant) -> tuple[bool, Fraction]:
        held = self.held(node)
        return held >= self.standings.quota(node, self.model), held / self.standings.weight(node)

    def _limited(self, node: Tenant, amount: Fraction) -> Fraction:
        limit = self.standings.limit(node, self.model)
        return amount if limit is None else min(amount, Fraction(limit))

    def _divided(self, total: Fraction, demand: Mapping[Tenant, Fraction]) -> dict[Tenant, Fraction]:
        quotas = {node: Fraction(self.standings.quota(node, self.model)) for node in demand}
        first = {node: min(quotas[node], amount) for node, amount in demand.items()}
        if sum(first.values()) > total:
            return _filled(total, first, quotas)
        rest = {node: amount - first[node] for node, amount in demand.items()}
        weights = {node: self.standings.weight(node) for node in demand}
        more = _filled(total - sum(first.values()), rest, weights)
        return {node: first[node] + more[node] for node in demand}


def _filled(
    total: Fraction, demand: Mapping[Tenant, Fraction], weight: Mapping[Tenant, Fraction]
) -> dict[Tenant, Fraction]:
    """What each gets: nobody more than is wanted, all others the same by weight."""
    found = dict.fromkeys(demand, Fraction(0))
    open_ = {node for node, amount in demand.items() if amount > 0 and weight[node] > 0}
    while open_:
        level = total / sum(weight[node] for node in open_)
        content = {node for node in open_ if demand[node] <= level * weight[node]}
        for node in content or open_:
            found[node] = demand[node] if content else level * weight[node]
        total -= sum(found[node] for node in content)
        open_ = open_ - content if content else set()
    return found


class Policies:
    """The policies that there were; one that was replaced may be decided by until it is read again."""

    def __init__(self) -> None:
        self._since: list[tuple[datetime, Standings]] = [(datetime.min.replace(tzinfo=UTC), Standings())]

    def put(self, shares: FairShares, now: datetime) -> None:
        """From now on this one is in its file."""
        self._since.append((now, Standings(shares)))

    def in_force(self, now: datetime) -> list[Standings]:
        """By which something may be decided at an instant, the newest first."""
        known = [(since, one) for since, one in self._since if since <= now]
        replaced = [one for (_, one), (end, _) in pairwise(known) if now - end < READ_WITHIN]
        return [known[-1][1], *reversed(replaced)]


def innocent_under_any(wrongs: Iterable[list[str]]) -> list[str]:
    """Nothing if it is right by any of several policies, else what is wrong by the newest, the first."""
    found = list(wrongs)
    return found[0] if found and all(found) else []
