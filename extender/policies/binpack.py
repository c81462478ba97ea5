"""Binpack: fill nodes that are in use before touching empty ones, so that pods for many GPUs find room."""

from cluster.decide.ledger import NodeView
from cluster.decide.predicates import wanted
from cluster.decide.wish import Wish
from extender.wire import MAX_SCORE


def binpack(wish: Wish, view: NodeView) -> int:
    """How full of the wanted devices the node would be with the pod on it, 0 to 10."""
    devices = free = 0
    for resource in wish.demand:
        devices += wanted(view.all_by_model.get(resource, {}), wish)
        free += wanted(view.free_by_model.get(resource, {}), wish)
    if not devices:
        return 0
    used = devices - free + sum(wish.demand.values())
    return min(MAX_SCORE, MAX_SCORE * used // devices)
