"""How many devices a pod holds at most, taking into account that the kubelet reuses devices.

``cluster.decide.placement`` chooses the devices by the same rules, and names their source.
"""

from collections.abc import Iterable

from cluster.objects.pods import ContainerNeed


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
