"""What the policy says of pods without a booking: to whom they count, and with what weight. Pure."""

from fractions import Fraction
from typing import Final

import msgspec

from booking.durations import Duration
from booking.policy.fair_shares import ANY_MODEL, Amounts, FairShares, Standing
from cluster import names
from cluster.decide import fairshare
from cluster.decide.eviction.costs import SECOND
from cluster.decide.fairshare import ShareSettings, Tenant, Tree
from cluster.objects.meta import UNREADABLE
from cluster.objects.pods import Pod
from cluster.objects.replaced_fields import replaced_in

MOST: Final = 100
"""A pod's own priority is between -100 and 100."""
_LONGEST: Final = 4
"""Characters of such a number."""


def settings_of(shares: FairShares) -> ShareSettings:
    """The settings, as the decisions need them."""
    return ShareSettings(
        reclaim_after=_span(shares.reclaim_after),
        min_runtime=_span(shares.min_runtime),
        turn=None if shares.turn is None else _span(shares.turn),
        evictions_per_day=shares.evictions_per_day,
        worth=shares.worth,
        turn_loss=shares.turn_loss,
    )


def tree_of(shares: FairShares, model: str) -> Tree:
    """Weights, quotas and limits for a model."""
    return Tree(
        groups={group.name: _standing(group.standing, model) for group in shares.groups},
        users={user: _standing(standing, model) for user, standing in shares.users.items()},
    )


def tenant_of(pod: Pod, shares: FairShares) -> Tenant:
    """Whose pod it is: its user, or its namespace where it is nobody's, in the first group that has them."""
    user, namespace = pod.metadata.annotation(names.USER), pod.metadata.namespace
    theirs = groups_on(pod) if shares.groups else frozenset[str]()
    group = next(
        (
            group.name
            for group in shares.groups
            if (user and user in group.members)
            or namespace in group.namespaces
            or not theirs.isdisjoint(group.kubernetes_groups)
        ),
        "",
    )
    return Tenant(user or f"namespace/{namespace}", group)


def groups_on(pod: Pod) -> frozenset[str]:
    """Those of its creator's groups that admission has written on a pod."""
    text = pod.metadata.annotation(names.GROUPS)
    if not text:
        return frozenset()
    try:
        return frozenset(msgspec.json.decode(text, type=list[str]))
    except UNREADABLE:
        return frozenset()


def value_of(shares: FairShares, model: str) -> Fraction:
    """What a GPU of a model counts in past use."""
    return Fraction(shares.values.get(model, 1))


def priority_of(pod: Pod) -> int:
    """Its place among its user's pods: what it asks for, else the value of the class that was replaced."""
    text = (pod.metadata.annotation(names.PRIORITY) or "").strip()
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(text) <= _LONGEST:
        return max(-MOST, min(MOST, int(text)))
    return replaced_in(pod.metadata.annotations or {}).priority or 0


def _span(length: Duration) -> int:
    return round(length.nominal.total_seconds() * SECOND)


def _standing(standing: Standing, model: str) -> fairshare.Standing:
    return fairshare.Standing(
        weight=standing.weight, quota=_of(standing.quota, model) or 0, limit=_of(standing.limit, model)
    )


def _of(amounts: Amounts, model: str) -> int | None:
    return amounts.get(model, amounts.get(ANY_MODEL))
