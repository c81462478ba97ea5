"""Whether enough is free on the node: CPU, memory, storage, extended resources but GPUs, number of pods.

Source: kube-scheduler 1.37, NodeResourcesFit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cluster.decide.scheduler_filters.existing_pods import ExistingPod, NodePods
from cluster.decide.scheduler_filters.resource_amounts import PODS, Amounts, capacity
from cluster.objects.nodes import Node

FULL: Final = "other pods take the CPU, memory or another resource that the pod asks for"
CROWDED: Final = "the node has as many pods as it takes"


@dataclass(frozen=True, slots=True)
class Resources:
    """What one pod requests."""

    amounts: Amounts

    def rejection(self, node: Node, on_node: NodePods, gone: Sequence[ExistingPod]) -> str | None:
        """Why the node has not enough of it free, once these of its pods are gone.

        A node has none of a resource that is missing from its ``allocatable``. But if even the number of pods
        is missing, no kubelet has described the node yet, and missing resources are ignored.
        """
        has = node.status.allocatable or {}
        described = PODS in has
        if described and len(on_node.others) - len(gone) >= capacity(PODS, has[PODS]):
            return CROWDED
        for name, amount in self.amounts:
            text = has.get(name)
            if text is None and not described:
                continue
            taken = on_node.used.get(name, 0)
            if gone:
                taken -= sum(dict(other.requests).get(name, 0) for other in gone)
            if taken + amount > (0 if text is None else capacity(name, text)):
                return FULL
        return None
