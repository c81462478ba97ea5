"""Whether a GPU is free for a new pod, by the predicates that the scheduler extender uses.

Nothing is kept for the pod, and other pods may be faster: the answer helps to choose between waiting and
starting without a GPU. It guarantees nothing.
"""

from collections.abc import Iterable
from typing import Literal

from cluster import names
from cluster.decide.available import available, largest_set, matching_count, shares_on
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.liveness import AgentState
from cluster.decide.node_fit import node_rejection
from cluster.decide.predicates import UNACCOUNTED, rejection
from cluster.decide.request import GpuRequest, gpu_request_of
from cluster.decide.shares import place, rooms
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod, is_live
from cluster.objects.quantity import QuantityError
from cluster.objects.scheduling_gates import other_gates

FreeGpus = Literal["free", "full", "unknown"]
Seen = tuple[Node, NodeView, AgentState]
"""A node, its devices, and how its agent is doing."""


def room(pod: Pod, nodes: Iterable[Seen]) -> FreeGpus:
    """Whether some node has the GPUs that the pod accepts.

    The answer is ``full`` only if that is certain (law L6). If too little is known of a node that may have
    free GPUs, the answer is ``unknown``, unless another node certainly has them. A node that does not suit
    the pod, for example one that is not ready, counts as having none. Nothing is certain where it is not
    known which devices the pod's claims would take.
    """
    try:
        request = gpu_request_of(pod)
    except QuantityError:
        return "unknown"
    if pod.claims and pod.claims.is_unclear:
        return "unknown"
    is_published = is_doubtful = False
    for node, view, agent in nodes:
        is_published = is_published or view.published
        if not view.published and not view.fault and not _has_gpus(node):
            continue
        is_known = view.published and not view.fault and agent == "alive"
        if is_known and _is_short(request, view):
            continue  # true of most nodes of a full cluster, and much quicker than ``rejection``
        why = rejection(request, view, agent)
        if (is_known and why not in {None, UNACCOUNTED}) or node_rejection(pod, node):
            continue
        if why is None:
            return "free"
        is_doubtful = True
    return "full" if is_published and not is_doubtful else "unknown"


def is_spoken_for(pod: Pod, nodes: Iterable[Seen], waiting: Iterable[Pod]) -> bool:
    """Whether pods that already wait would take all free GPUs, as a Job's hundred pods do with three GPUs.

    Args:
        pod: the new pod.
        nodes: the nodes with their devices.
        waiting: unbound pods; those that request something else, wait behind a gate of others, or have
            devices kept for them do not count.
    """
    try:
        request = gpu_request_of(pod)
        if request.share:
            return False  # how many shares have room depends on the size of each
        known = [view for _, view, agent in nodes if agent == "alive" and view.published]
        left = {
            name: sum(matching_count(available(request, view, name), request) for view in known) - needed
            for name, needed in request.demand.items()
        }
        # A user may have thousands of pods in line, and free GPUs are few: the first pods decide.
        for other in waiting:
            if min(left.values(), default=0) < 0:
                return True
            if (before := _waits(other)) and request.competes_with(before):
                left = {name: amount - before.demand.get(name, 0) for name, amount in left.items()}
    except QuantityError:
        return False
    return min(left.values(), default=0) < 0


def _waits(other: Pod) -> GpuRequest | None:
    """What an unbound pod waits for; None where it does not wait, or has devices kept for it."""
    if not is_live(other) or other_gates(other):
        return None
    request = gpu_request_of(other)
    return None if request.hold else request


def _is_short(request: GpuRequest, view: NodeView) -> bool:
    """Whether the node has too few GPUs, even if pods with unknown devices held none of the free ones."""
    if shares_on(request, view):
        return place(request, rooms(request, view)) is None
    return any(
        largest_set(available(request, view, name), request) < needed
        for name, needed in request.demand.items()
    )


def _has_gpus(node: Node) -> bool:
    """Whether the kubelet reports GPUs, even if our agent has published none."""
    capacity = node.status.capacity or {}
    return any(names.is_gpu_resource(name) and str(amount) != "0" for name, amount in capacity.items())
