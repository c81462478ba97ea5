"""Pods that kube-scheduler means to place on a node once their victims have left (``nominatedNodeName``).

Its own filters keep room for them in numbers of devices; which devices would suit them only we know.
"""

from dataclasses import dataclass, replace

from cluster.objects.demand import demand
from cluster.objects.device_selector import DeviceSelector, device_selector_of
from cluster.objects.pods import Pod, container_needs, is_live
from cluster.objects.quantity import QuantityError


@dataclass(frozen=True, slots=True)
class Nominated:
    """A waiting pod that is meant for a node."""

    uid: str
    node: str
    priority: int
    demand: dict[str, int]
    """Resource -> devices."""
    selector: DeviceSelector

    def served(self, model: str | None) -> "Nominated":
        """With devices of a model, that of its booking; None where it has none."""
        return replace(self, selector=replace(self.selector, models=frozenset({model}))) if model else self


def nominated(pod: Pod) -> Nominated | None:
    """For which node a pod is meant; None for one that is bound, ends, or asks for no GPU."""
    node = pod.status.nominated_node_name
    if not node or pod.spec.node_name or not is_live(pod):
        return None
    try:
        needed = demand(container_needs(pod))
    except QuantityError:
        return None
    if not needed:
        return None
    return Nominated(pod.metadata.uid, node, pod.spec.priority or 0, needed, device_selector_of(pod))
