"""How one pod's containers share its devices: the kubelet's reuse, replayed.

Placement uses it to decide which container gets which device, so that the extender promises what the kubelet
will do. Source: kubelet device manager 1.37.1 (``Allocate``, ``devicesToAllocate``): containers are served in
the order init containers, then app containers; each takes devices that earlier regular init containers have
left before it takes new ones; the devices of a regular init container may be used again, those of a sidecar
or an app container may not.
"""

from collections.abc import Callable, Iterable

from cluster.objects.assignment import Assignment
from cluster.objects.pods import ContainerNeed

Source = Callable[[str, int], Iterable[str]]
"""``(resource, amount)`` -> that many devices that the pod does not have yet."""


def device_reuse(needs: tuple[ContainerNeed, ...], source: Source) -> Assignment:
    """Devices per container, new ones taken from the source only where nothing can be used again.

    Args:
        needs: in the order in which the kubelet serves containers (``container_needs``).
        source: where new devices come from.
    """
    assignment: dict[str, tuple[str, ...]] = {}
    reusable: dict[str, tuple[str, ...]] = {}
    for need in needs:
        left = reusable.get(need.resource, ())
        again = left[: need.count]
        missing = need.count - len(again)
        fresh = tuple(source(need.resource, missing)) if missing else ()
        got = again + fresh
        # A regular init container adds its new devices to those left over; others keep what they take.
        reusable[need.resource] = left + fresh if need.kind == "init" else left[need.count :]
        assignment[need.name] = assignment.get(need.name, ()) + got
    return assignment
