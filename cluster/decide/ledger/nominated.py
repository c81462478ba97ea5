"""Pods that kube-scheduler intends to place on a node once their victims have left (``nominatedNodeName``).

kube-scheduler's own filters reserve a number of devices for them, but only we know which devices suit them.
"""

from dataclasses import dataclass, replace

from cluster.objects.demand import demand
from cluster.objects.device_selector import DeviceSelector, device_selector_of
from cluster.objects.pods import Pod, container_needs, is_live
from cluster.objects.quantity import QuantityError


@dataclass(frozen=True, slots=True)
class Nominated:
    """A waiting pod that is nominated for a node."""

    uid: str
    node: str
    priority: int
    demand: dict[str, int]
    """Resource -> number of devices."""
    selector: DeviceSelector

    def served(self, model: str | None) -> "Nominated":
        """A copy that takes devices of its booking's model only; itself if ``model`` is None."""
        return replace(self, selector=replace(self.selector, models=frozenset({model}))) if model else self


def nominated(pod: Pod) -> Nominated | None:
    """The pod's nomination; None if it has none, is bound, is ending, or requests no GPU."""
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
