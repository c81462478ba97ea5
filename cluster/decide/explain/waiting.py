"""Why a pod waits, for the whole cluster (law L8).

The extender answers node by node, and kube-scheduler asks it only about nodes that pass its own filters. For
a pod that is too big for every node, or while the cluster is full, it is not asked: then this module answers.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from cluster import names
from cluster.decide import reasons
from cluster.decide.available import largest_set, matching_count
from cluster.decide.explain.snapshot import counted, few
from cluster.decide.ledger import NodeView
from cluster.decide.predicates import not_given, rejection, waits_for_owner
from cluster.decide.reasons import Reason
from cluster.decide.request import GpuRequest
from cluster.objects.hold import Hold
from cluster.objects.share_request import ShareRequest

LASTING: Final = frozenset(
    cause.code
    for cause in (
        reasons.NOT_PUBLISHED,
        reasons.NOT_GIVEN,
        reasons.TOO_MANY,
        reasons.NO_SUCH,
        reasons.TOO_MANY_SUCH,
        reasons.MIXED_MODELS,
        reasons.SHARE_BESIDE_WHOLE,
        reasons.SHARE_TOO_LARGE,
    )
)
"""Codes of reasons that do not change when a pod leaves."""


def why_waiting(request: GpuRequest, views: Iterable[NodeView]) -> Reason | None:
    """The reason why no node can serve the pod now: a message with its code.

    None if a node can, if GPUs are not the reason, and for a pod with a hold: see ``hold_message``.

    Args:
        request: the pod's request.
        views: all nodes.
    """
    if request.hold:
        return None
    nodes = [view for view in views if view.published]
    if found := _not_given(request, nodes):
        return found
    if request.share:
        return _no_share(request, nodes, request.share)
    every = (_reasons(request, nodes, resource, needed) for resource, needed in request.demand.items())
    return next(chain.from_iterable(every), None)


def _not_given(request: GpuRequest, nodes: list[NodeView]) -> Reason | None:
    """Why no driver would give what is configured for the pod's claims."""
    if not request.refused:
        return None
    found = [not_given(request, view) for view in nodes if view.all_by_model.get(names.CLAIM_RESOURCE)]
    first = next(iter(found), None)
    return reasons.NOT_GIVEN.of_all(f"No node can: {first}.") if first and all(found) else None


def hold_message(hold: Hold) -> str:
    """The message for a booked pod while its victims leave. It depends only on the hold, so it is stable."""
    number, leaving = len(hold.devices), len(hold.victims)
    while_ = f" while {counted(leaving, 'pod')} without a booking leave{'s' if leaving == 1 else ''}"
    return (
        f"{counted(number, 'GPU')} of node {hold.node} {'is' if number == 1 else 'are'} kept for this pod"
        f"{while_ if leaving else ''}."
    )


def _reasons(request: GpuRequest, nodes: list[NodeView], resource: str, needed: int) -> Iterator[Reason]:
    """All reasons why the pod waits, the most lasting first; only the first is meant to be read."""
    kinds = {names.GPU_RESOURCE: "GPUs", names.CLAIM_RESOURCE: "GPUs by claims"}
    kind = kinds.get(resource, f"devices {resource}")
    of_model = request.selector.text
    everything = [view.all_by_model.get(resource, {}) for view in nodes]
    models = sorted({model for groups in everything for model in groups})
    yield from _waiting_for_owners(request, nodes, resource, needed, kind=f"{kind}{of_model}")
    by_claim = sum(names.CLAIM_RESOURCE in view.all_by_model for view in nodes)
    if not models and by_claim and resource != names.CLAIM_RESOURCE:
        yield reasons.NOT_PUBLISHED.of_all(
            f"No node has {kind} for {resource}: {by_claim} of {len(nodes)} nodes give GPUs by claims only,"
            " also where a DeviceClass names that resource."
        )
    if not models:
        yield reasons.NOT_PUBLISHED.of_all(f"No node has {kind}.")
    largest = max((sum(map(len, groups.values())) for groups in everything), default=0)
    if largest < needed:
        yield reasons.TOO_MANY.of_all(
            f"The pod asks for {needed} {kind}, but no node has more than {largest}."
        )
    matching = max((matching_count(groups, request) for groups in everything), default=0)
    if not matching:
        yield reasons.NO_SUCH.of_all(
            f"No node has a GPU{of_model}. Models in this cluster: {', '.join(models)}."
        )
    if matching < needed:
        yield reasons.TOO_MANY_SUCH.of_all(
            f"The pod asks for {needed} {kind}{of_model}, but no node has more than {matching}."
        )
    most = max((largest_set(groups, request) for groups in everything), default=0)
    if most < needed:
        yield reasons.MIXED_MODELS.of_all(
            f"The pod asks for {needed} {kind}{of_model}, but no node has more than {most} of one model,"
            f" and it does not list several models in {names.MODEL}."
        )
    yield from _taken(request, nodes, resource, needed, kind=f"{kind}{of_model}")


def _waiting_for_owners(
    request: GpuRequest, nodes: list[NodeView], resource: str, needed: int, *, kind: str
) -> Iterator[Reason]:
    """That only nodes which wait to change who gives out their GPUs would do."""
    late = [view.name for view in nodes if waits_for_owner(request, view, resource, needed)]
    healthy = (largest_set(view.healthy_by_model.get(resource, {}), request) for view in nodes)
    if late and max(healthy, default=0) < needed:
        yield reasons.OWNER_WAITS.of_all(
            f"The only healthy {kind} for it are on {few(late)}, where who gives them out is about to change:"
            " until then no new pod gets any."
        )


def _taken(
    request: GpuRequest, nodes: list[NodeView], resource: str, needed: int, *, kind: str
) -> Iterator[Reason]:
    """Why the existing devices are not available: their health, or their holders."""
    healthy = sum(matching_count(view.healthy_by_model.get(resource, {}), request) for view in nodes)
    if not healthy:
        yield reasons.UNHEALTHY.of_all(f"None of the {kind} in this cluster is healthy.")
    if not sum(matching_count(view.unheld_by_model.get(resource, {}), request) for view in nodes):
        yield reasons.IN_USE.of_all(f"All {healthy} healthy {kind} are in use.")
    free = max((largest_set(view.free_by_model.get(resource, {}), request) for view in nodes), default=0)
    if not free:
        yield reasons.ON_HOLD.of_all(f"All {healthy} healthy {kind} are in use or kept for booked pods.")
    if free < needed:
        yield reasons.IN_USE.of_all(f"No node has {needed} free {kind}.")


def _no_share(request: GpuRequest, nodes: list[NodeView], share: ShareRequest) -> Reason | None:
    """Why no node has room for a pod's shares: the reason of the node that comes nearest."""
    if not nodes:
        return reasons.NOT_PUBLISHED.of_all("No node has GPUs.")
    found = [rejection(request, view, "alive") for view in nodes]
    known = [reason.code for reason in found if reason]
    if len(known) < len(found):
        return None
    nearest = max((cause for cause in reasons.ALL if cause.code in known), key=reasons.ALL.index)
    what = f"{share.text}{request.selector.text}"
    messages = {
        reasons.NO_SUCH: f"No node has a GPU{request.selector.text}.",
        reasons.SHARE_TOO_LARGE: f"No node has enough GPUs that offer {what} to pods that share.",
        reasons.SHARE_MODE: f"No node has {what} in the mode in which the pod shares.",
        reasons.NO_SLOTS: f"No node has a slot for {what}: all are taken, or GPUs are given whole only.",
        reasons.SHARE_IN_USE: f"No node has room for {what}.",
    }
    return nearest.of_all(messages.get(nearest) or f"No node can give {what}: {nearest.reason()}.")
