"""How much of what a pod may be given on a node is in use: what ``binpack`` and ``spread`` are about."""

from dataclasses import dataclass

from cluster.decide.ledger import NodeView
from cluster.decide.offer import wanted
from cluster.decide.wish import Wish


@dataclass(frozen=True, slots=True)
class Fill:
    """Devices of a node that the pod accepts."""

    devices: int
    """Sick ones too."""
    free: int
    """With the pod on the node. What pods hold of which nobody has said which it is may be any of them."""


def fill(wish: Wish, view: NodeView) -> Fill | None:
    """What the node is like with the pod on it; None where it has nothing that the pod accepts."""
    devices = free = 0
    for resource in wish.demand:
        devices += wanted(view.all_by_model.get(resource, {}), wish)
        here = wanted(view.free_by_model.get(resource, {}), wish)
        free += max(0, here - view.unknown.get(resource, 0))
    if not devices:
        return None
    return Fill(devices=devices, free=max(0, free - sum(wish.demand.values())))
