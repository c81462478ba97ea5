"""Weighted max-min division: exact, in whole numbers and fractions, without rounding."""

from collections.abc import Mapping
from fractions import Fraction
from typing import TypeVar

from cluster.decide.fairshare.settings import Amount

K = TypeVar("K")


def water_fill(total: Amount, demand: Mapping[K, Amount], weight: Mapping[K, int]) -> dict[K, Amount]:
    """Divide ``total``: nobody gets more than demanded, and all others get the same per weight.

    Args:
        total: at least 0.
        demand: each at least 0.
        weight: of everybody with a demand; at least 0. Who has 0 gets nothing where there is too little.
    """
    left: Amount = total
    if sum(demand.values()) <= left:
        return dict(demand)
    shares: dict[K, Amount] = {}
    weights = sum(weight[key] for key in demand)
    wanting = {key: amount for key, amount in demand.items() if weight[key] > 0 and amount > 0}
    pairs = {(amount, weight[key]) for key, amount in wanting.items()}
    level_of = {pair: Fraction(pair[0]) / pair[1] for pair in pairs}
    weights = sum(weight[key] for key in wanting)
    level: Fraction | None = None
    of_weight: dict[int, Amount] = {}
    for key in sorted(wanting, key=lambda key: level_of[wanting[key], weight[key]]):
        its_weight = weight[key]
        if level is None and wanting[key] * weights <= left * its_weight:
            shares[key] = wanting[key]
            left -= wanting[key]
            weights -= its_weight
            continue
        if level is None:
            level = Fraction(left) / weights
        if its_weight not in of_weight:
            of_weight[its_weight] = level * its_weight
        shares[key] = of_weight[its_weight]
    return {key: shares.get(key, 0) for key in demand}


def divide(
    total: Amount, demand: Mapping[K, Amount], weight: Mapping[K, int], quota: Mapping[K, Amount]
) -> dict[K, Amount]:
    """Quotas first (all scaled down together where there is too little), and the rest by weight.

    Args:
        total: what is divided.
        demand: of everybody.
        weight: of everybody; above 0.
        quota: of those that have one.
    """
    base = {key: min(quota[key], demand[key]) for key in demand if quota.get(key)}
    need = sum(base.values())
    if need > total:
        scale = _whole({key: quota[key] for key in base})
        return dict.fromkeys(demand, 0) | water_fill(total, base, scale)
    if not base:
        return water_fill(total, demand, weight)
    rest = {key: amount - base.get(key, 0) for key, amount in demand.items()}
    more = water_fill(total - need, rest, weight)
    return {key: base.get(key, 0) + more[key] for key in demand}


def _whole(quota: Mapping[K, Amount]) -> dict[K, int]:
    """Quotas as whole numbers in the same proportion."""
    scale = 1
    for amount in quota.values():
        scale *= Fraction(amount).denominator
    return {key: int(amount * scale) for key, amount in quota.items()}
