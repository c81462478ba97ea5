"""Whether the host ports that a pod uses are free. Source: kube-scheduler 1.37, NodePorts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cluster.decide.scheduler_filters.existing_pods import EVERYWHERE, ExistingPod, NodePods, Taken
from cluster.objects.nodes import Node

TAKEN: Final = "another pod has a port of the node that the pod asks for"


@dataclass(frozen=True, slots=True)
class Ports:
    """The host ports that one pod uses."""

    ports: tuple[Taken, ...]

    def rejection(self, _node: Node, on_node: NodePods, gone: Sequence[ExistingPod]) -> str | None:
        """Why it would not get them, once these pods are gone."""
        uids = {other.uid for other in gone}
        taken = (
            port for other in on_node.others if other.ports and other.uid not in uids for port in other.ports
        )
        return TAKEN if any(_clash(mine, theirs) for theirs in taken for mine in self.ports) else None


def _clash(mine: Taken, theirs: Taken) -> bool:
    """Whether two ports clash: same number and protocol, at the same address or one of them at all."""
    return mine[1:] == theirs[1:] and (mine[0] == theirs[0] or EVERYWHERE in (mine[0], theirs[0]))
