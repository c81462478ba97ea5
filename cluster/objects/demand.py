"""How many devices a pod holds at most, taking into account that the kubelet reuses devices.

``cluster.decide.placement`` chooses the devices by the same rules, and names their source.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from cluster.objects.pods import ContainerNeed

_KINDS: Final = 1_000
"""Number of different requests whose demand is kept: most pods request the same."""


@lru_cache(_KINDS)
def demanded(needs: tuple[ContainerNeed, ...]) -> Mapping[str, int]:
    """As ``demand``: the same mapping for equal needs."""
    return MappingProxyType(demand(needs))


def demand(needs: Iterable[ContainerNeed]) -> dict[str, int]:
    """How many devices of each resource the pod holds from its admission to its end.

    Args:
        needs: in the order in which the kubelet serves containers (``container_needs``).

    This only counts, and allocates nothing: the API server accepts a pod that requests 10**18 devices.
    """
    taken: dict[str, int] = {}
    reusable: dict[str, int] = {}
    for need in needs:
        left = reusable.get(need.resource, 0)
        missing = max(0, need.count - left)
        taken[need.resource] = taken.get(need.resource, 0) + missing
        reusable[need.resource] = left + missing if need.kind == "init" else max(0, left - need.count)
    return taken
