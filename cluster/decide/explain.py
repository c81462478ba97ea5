"""Why a pod waits, told for the whole cluster (law L8).

The extender answers node by node; kube-scheduler asks it only about nodes that its own filters leave. For
a pod that is too big for every node, or while the cluster is full, nobody asks: this module says it then.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from cluster import names
from cluster.decide.ledger import NodeView
from cluster.decide.predicates import wanted
from cluster.decide.wish import Wish


def why_waiting(wish: Wish, views: Iterable[NodeView]) -> str | None:
    """A sentence when no node can serve the pod now, None when one can or when it is not about GPUs.

    Args:
        wish: what the pod wants.
        views: all nodes.
    """
    nodes = [view for view in views if view.published]
    reasons = (_reasons(wish, nodes, resource, needed) for resource, needed in wish.demand.items())
    return next(chain.from_iterable(reasons), None)


def _reasons(wish: Wish, nodes: list[NodeView], resource: str, needed: int) -> Iterator[str]:
    """Everything that stands in the way, the most lasting first; only the first is meant to be read."""
    kind = "GPUs" if resource == names.GPU_RESOURCE else f"devices {resource}"
    of_model = f" of model {wish.models_text}" if wish.models else ""
    everything = [view.all_by_model.get(resource, {}) for view in nodes]
    models = sorted({model for groups in everything for model in groups})
    if not models:
        yield f"No node has {kind}."
    largest = max((sum(map(len, groups.values())) for groups in everything), default=0)
    if largest < needed:
        yield f"The pod asks for {needed} {kind}, but no node has more than {largest}."
    matching = max((wanted(groups, wish) for groups in everything), default=0)
    if not matching:
        yield f"No node has a GPU of model {wish.models_text}. Models in this cluster: {', '.join(models)}."
    if matching < needed:
        yield f"The pod asks for {needed} {kind}{of_model}, but no node has more than {matching}."
    healthy = sum(wanted(view.healthy_by_model.get(resource, {}), wish) for view in nodes)
    if not healthy:
        yield f"None of the {kind}{of_model} in this cluster is healthy."
    free = max((wanted(view.free_by_model.get(resource, {}), wish) for view in nodes), default=0)
    if not free:
        yield f"All {healthy} healthy {kind}{of_model} are in use."
    if free < needed:
        yield f"No node has {needed} free {kind}{of_model}."
