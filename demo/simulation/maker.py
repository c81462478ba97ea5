"""The author of a write to the API server in memory, for those who judge what was written."""

from dataclasses import dataclass
from typing import Final

from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS

FOLLOWED: Final = frozenset({PODS.plural, NODES.plural, LEASES.plural, BOOKINGS.plural})
"""The kinds by whose events the parts of the product decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """Who has written, and what they knew.

    name: for people. is_ours: whether it is a part of the product. staleness: seconds since the oldest of
    their caches had an event. skew: seconds that their clock is ahead of the cluster's. store: the id of
    their database. problem: why that cannot be used, None where it can. Both are None for one who has none.
    """

    name: str
    is_ours: bool = False
    staleness: float = 0.0
    skew: float = 0.0
    store: str | None = None
    problem: str | None = None
