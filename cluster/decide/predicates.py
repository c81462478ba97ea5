"""Does a pod fit on a node, and if not: why.

A reason is a constant sentence per (pod, reason): kube-scheduler writes it into the pod, a changed text is a
changed pod, and a changed pod is tried again at once. So no counts of what is free, no times, no order that
may differ. The order of the checks is the order in which a person would want to hear about them.
"""

from collections.abc import Iterator

from cluster.decide.ledger import NodeView
from cluster.decide.ledger.liveness import State
from cluster.decide.ledger.view import ByModel
from cluster.decide.wish import Wish

NOT_PUBLISHED = "the node has not published its GPUs"
AGENT: dict[State, str] = {
    "unseen": "the GPU agent of the node has not reported yet",
    "silent": "the GPU agent of the node is silent",
    "stopping": "the GPU agent of the node is stopping",
}
TOO_MANY = "the pod asks for more GPUs than this node has"
UNACCOUNTED = "GPUs of this node are held by pods that were not given them by GPU Booking"


def obstacle(wish: Wish, view: NodeView, agent: State) -> str | None:
    """Why the pod does not fit on the node, None when it does.

    Args:
        wish: what the pod wants.
        view: the node.
        agent: how the node's agent is doing.
    """
    if not wish.demand:
        return None
    if not view.published:
        return view.fault or NOT_PUBLISHED
    if view.fault:
        return view.fault
    if agent != "alive":
        return AGENT[agent]
    for resource, needed in wish.demand.items():
        # A device held by a pod of which nobody has said which it is may be any of the free ones.
        spare = wanted(view.free_by_model.get(resource, {}), wish) - view.unknown.get(resource, 0)
        if spare < needed:
            return next(_shortages(wish, view, resource, needed))
    return None


def unhealthy(wish: Wish) -> str:
    """The node has enough GPUs for the pod, but too many of them are sick."""
    return f"not enough GPUs{_of_model(wish)} on this node are healthy"


def in_use(wish: Wish) -> str:
    """The node has enough healthy GPUs for the pod, but others hold them."""
    return f"not enough GPUs{_of_model(wish)} on this node are free"


def _of_model(wish: Wish) -> str:
    return f" of model {wish.models_text}" if wish.models else ""


def wanted(groups: ByModel, wish: Wish) -> int:
    """How many devices of a group are of a model that the pod accepts."""
    count = 0
    for model, found in groups.items():
        if not wish.models or model in wish.models:
            count += len(found)
    return count


def _shortages(wish: Wish, view: NodeView, resource: str, needed: int) -> Iterator[str]:
    """Everything that is short, the most lasting first."""
    everything = view.all_by_model.get(resource, {})
    matching = wanted(everything, wish)
    if sum(map(len, everything.values())) < needed:
        yield TOO_MANY
    if not matching:
        yield f"no GPU of model {wish.models_text} on this node"
    if matching < needed:
        yield f"the pod asks for more GPUs of model {wish.models_text} than this node has"
    if wanted(view.healthy_by_model.get(resource, {}), wish) < needed:
        yield unhealthy(wish)
    if wanted(view.free_by_model.get(resource, {}), wish) < needed:
        yield in_use(wish)
    yield UNACCOUNTED
